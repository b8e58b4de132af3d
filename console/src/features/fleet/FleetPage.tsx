/** All machines at a glance, as cells or rows, with filters. */

import { Button, SegmentedControl, Select, Skeleton, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState } from 'react';
import type { FleetCounts } from '../../../../src/contract/fleet/fleet.ts';
import { nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import { fleetNodeOf } from '../../api/cache/fleet-node.ts';
import { allocationsQuery } from '../../api/queries/allocations.ts';
import { fleetDisplay, maxCells, totalOf } from '../../api/queries/fleet-size.ts';
import { fleetCountsQuery, fleetQuery, nodeForIdQuery, retiredQuery } from '../../api/queries/nodes.ts';
import { poolsQuery } from '../../api/queries/pools.ts';
import { mayOperate, seesWholeFleet, useSession } from '../../api/session.ts';
import { IconGridDots, IconList, IconPlus, IconServerOff } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { asSet, fromSet } from '../../ui/search-params.ts';
import { nodeLooks } from '../../ui/status/status-looks.ts';
import { PillFilter } from '../../ui/table/PillFilter.tsx';
import { SearchField } from '../../ui/table/SearchField.tsx';
import { AllocateDialog } from '../allocation/lazy-dialogs.ts';
import { HeldBanner } from '../supervision/HeldVerdicts.tsx';
import { FleetGrid } from './FleetGrid.tsx';
import { FleetTable } from './FleetTable.tsx';
import type { StatusCounts } from './filter.ts';
import { LargeFleet } from './LargeFleet.tsx';
import { useFleetView } from './use-fleet-view.ts';

const route = getRouteApi('/frame/fleet');

export function FleetPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true });
  const session = useSession();
  const [allocating, setAllocating] = useState(false);

  const statuses = useMemo(() => asSet(search.status, nodeStatusNames), [search.status]);
  const wantsRetired = statuses.has('retired');
  const counts = useQuery({ ...fleetCountsQuery, enabled: seesWholeFleet(session) });
  const display = fleetDisplay(counts.data, search.pool, seesWholeFleet(session));
  const fleet = useQuery({
    ...fleetQuery(display === 'pool' ? search.pool : undefined),
    enabled: display === 'fleet' || display === 'pool',
  });
  const retired = useInfiniteQuery({ ...retiredQuery, enabled: wantsRetired });
  const pools = useQuery({ ...poolsQuery, enabled: seesWholeFleet(session) });
  const error = fleet.error ?? counts.error ?? (wantsRetired ? retired.error : null);

  const query = useDeferredValue(search.q);
  const { data: nodeId } = useQuery(nodeForIdQuery(query));
  const q = nodeId ?? query;
  const groupBy = search.group === 'zone' ? 'zone' : 'pool';
  const filter = useMemo(() => ({ q, pool: search.pool, statuses }), [q, search.pool, statuses]);
  const retiredNodes = useMemo(
    () => (wantsRetired ? (retired.data?.pages.flatMap((page) => page.items.map(fleetNodeOf)) ?? []) : []),
    [retired.data, wantsRetired],
  );
  const view = useFleetView(fleet.data, retiredNodes, filter, groupBy);
  const { matched, shown } = view;
  const stuck = useStuckReleases();
  const poolNames = (pools.data ?? []).map(({ name }) => name);

  const isFiltered = Boolean(search.q || search.pool || statuses.size > 0);
  const allocate = mayOperate(session) && (
    <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setAllocating(true)}>
      Allocate
    </Button>
  );

  return (
    <>
      <PageHeader
        title="Fleet"
        tab="Fleet"
        below={
          display === 'counts'
            ? `${totalOf(counts.data ?? []).toLocaleString()} machines`
            : fleet.data && <span>{summary(matched, shown, isFiltered)}</span>
        }
        actions={allocate}
      />
      <HeldBanner />
      <div className={toolbar.toolbar}>
        <SearchField label="Search names, ids, labels" value={search.q} onChange={(q) => change({ q })} />
        {poolNames.length > 1 && (
          <Select
            aria-label="Pool"
            placeholder="Every pool"
            data={poolNames.toSorted()}
            value={search.pool ?? null}
            onChange={(pool) => change({ pool: pool ?? undefined })}
            clearable
            clearButtonProps={{ 'aria-label': 'Every pool' }}
            w={170}
            className={toolbar.choice}
          />
        )}
        {search.view !== 'table' && (
          <SegmentedControl
            aria-label="Grouped by"
            value={groupBy}
            onChange={(group) => change({ group: group === 'pool' ? undefined : group })}
            data={groupings}
          />
        )}
        <SegmentedControl
          className={toolbar.end}
          aria-label="View"
          value={search.view === 'table' ? 'table' : 'grid'}
          onChange={(view) => change({ view: view === 'grid' ? undefined : view })}
          data={views}
        />
        <div className={toolbar.wide}>
          <PillFilter
            label="Statuses"
            looks={nodeLooks}
            counts={display === 'counts' ? countsOf(counts.data ?? []) : { ...view.counts }}
            always={alwaysOffered}
            chosen={statuses}
            onChange={(chosen) => change({ status: fromSet(chosen) })}
          />
        </div>
      </div>

      {error && <FailurePanel error={error} />}
      {display === 'counts' && counts.data && (
        <LargeFleet counts={counts.data} q={query} statuses={statuses} stuck={stuck} />
      )}
      {display === 'pool' && fleet.data && fleet.data.size >= maxCells && (
        <Text size="sm" c="dimmed" mb="sm">
          Only the first {fleet.data.size.toLocaleString()} machines of this pool are drawn. Search the whole fleet to
          find the others.
        </Text>
      )}
      {display !== 'counts' && fleet.isPending && (
        <Skeleton height={180} radius="lg" role="status" aria-label="Loading the fleet" />
      )}
      {display !== 'counts' && fleet.data && shown === 0 && !error && (
        <Panel>
          {isFiltered ? (
            <Empty icon={IconServerOff} title="No machine matches">
              <p>Try other words, another pool or more statuses.</p>
              <Button variant="default" onClick={() => change({ q: undefined, pool: undefined, status: undefined })}>
                Show the whole fleet
              </Button>
            </Empty>
          ) : (
            <Empty icon={IconServerOff} title="No machines yet">
              <p>
                Bring up a machine here, or from a terminal:
                <code>./bin/slipway allocate --pool local --wait</code>
                The machine appears here at once and shows its progress.
              </p>
              {allocate}
            </Empty>
          )}
        </Panel>
      )}
      {display !== 'counts' &&
        shown > 0 &&
        (search.view === 'table' ? (
          <Panel flush>
            <FleetTable
              stuck={stuck}
              nodes={view.groups.flatMap(({ nodes }) => nodes).slice(0, maxRows)}
              sort={search.sort}
              onSort={(sort) => change({ sort })}
            />
            {shown > maxRows && (
              <Text p="sm" ta="center" size="sm" c="dimmed">
                The first {maxRows} of {shown.toLocaleString()} machines. Search or filter to see the others.
              </Text>
            )}
          </Panel>
        ) : (
          <FleetGrid view={view} groupBy={groupBy} pools={pools.data} stuck={stuck} />
        ))}
      <AllocateDialog opened={allocating} onClose={() => setAllocating(false)} pool={search.pool} />
    </>
  );
}

/** More rows would be unreadable and slow to draw. */
const maxRows = 500;

const failedReleases = { status: 'release_failed' };

/**
 * Nodes with a failed release, and why. Their own status is only `cleaning`, which hides the
 * failure.
 */
function useStuckReleases(): ReadonlyMap<string, string> {
  const { data } = useInfiniteQuery(allocationsQuery(failedReleases));
  return useMemo(
    () =>
      new Map(
        data?.pages.flatMap(({ items }) =>
          items.flatMap(({ node_id, reason }) => (node_id ? [[node_id, reason ?? '']] : [])),
        ),
      ),
    [data],
  );
}

const countsOf = (items: FleetCounts['items']): StatusCounts =>
  Object.fromEntries(
    nodeStatusNames.map((status) => [status, totalOf(items.filter((each) => each.status === status))]),
  );

const summary = (matched: number, shown: number, isFiltered: boolean): string => {
  const nodes = matched === 1 ? '1 machine' : `${matched.toLocaleString()} machines`;
  return isFiltered && shown !== matched ? `${shown.toLocaleString()} of ${nodes}` : nodes;
};

const alwaysOffered = ['retired'] as const;

const groupings = [
  { value: 'pool', label: 'By pool' },
  { value: 'zone', label: 'By zone' },
];

const views = [
  { value: 'grid', label: <View icon={IconGridDots} word="Grid" /> },
  { value: 'table', label: <View icon={IconList} word="Table" /> },
];

function View({ icon: Icon, word }: { icon: typeof IconList; word: string }) {
  return (
    <span style={{ display: 'inline-flex', alignItems: 'center', gap: 6 }}>
      <Icon size={15} aria-hidden />
      {word}
    </span>
  );
}
