/** All allocations, newest first, with the allocate and recover dialogs. */

import { Button, Group } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { type AllocationStatus, allocationStatusNames } from '../../../../src/lifecycle/model/states.ts';
import { filters } from '../../api/cache/keys.ts';
import { allocationsQuery } from '../../api/queries/allocations.ts';
import { overviewQuery } from '../../api/queries/pools.ts';
import { mayOperate, seesWholeFleet, useSession } from '../../api/session.ts';
import { IconBox, IconPlus } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { allocationLooks } from '../../ui/status/status-looks.ts';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { PillFilter } from '../../ui/table/PillFilter.tsx';
import { SearchField } from '../../ui/table/SearchField.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { AllocationTable } from './AllocationTable.tsx';
import { AllocateDialog, RecoverDialog } from './lazy-dialogs.ts';

const route = getRouteApi('/frame/allocations');

const isStatus = (word: string | undefined): word is AllocationStatus =>
  allocationStatusNames.some((status) => status === word);

const matchesSearch = (allocation: Allocation, q: string) =>
  [
    allocation.name,
    allocation.allocation_id,
    allocation.node_id,
    allocation.workflow_id,
    allocation.correlation_id,
    allocation.pool,
    allocation.tenant,
  ]
    .join(' ')
    .toLowerCase()
    .includes(q);

export function AllocationsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true });
  const goTo = useNavigate();
  const session = useSession();
  const [action, setAction] = useState<Action | null>(null);

  const status = isStatus(search.status) ? search.status : undefined;
  const list = useInfiniteQuery(allocationsQuery(filters({ status, pool: search.pool })));
  const overview = useQuery({ ...overviewQuery, enabled: seesWholeFleet(session) });
  const all = useMemo(() => list.data?.pages.flatMap((page) => page.items), [list.data]);
  const q = search.q?.toLowerCase();
  const visibleRows = useMemo(() => (q ? all?.filter((allocation) => matchesSearch(allocation, q)) : all), [all, q]);
  const isFiltered = Boolean(q || status || search.pool);

  const allocate = mayOperate(session) && (
    <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => change({ dialog: 'allocate' })}>
      Allocate
    </Button>
  );

  const recoverAll = mayOperate(session) && seesWholeFleet(session) && status === 'release_failed' && (
    <Button variant="default" disabled={all?.length === 0} onClick={() => change({ dialog: 'recover' })}>
      Recover all…
    </Button>
  );

  return (
    <>
      <PageHeader
        title="Allocations"
        tab="Allocations"
        below="Newest first"
        actions={
          <>
            {recoverAll}
            {allocate}
          </>
        }
      />
      <div className={toolbar.toolbar}>
        <SearchField label="Search names and ids" value={search.q} onChange={(q) => change({ q })} />
        <div className={toolbar.wide}>
          <PillFilter
            label="Status"
            looks={allocationLooks}
            counts={overview.data?.allocations ?? {}}
            always={allocationStatusNames}
            chosen={new Set(status ? [status] : [])}
            onChange={(chosen) => change({ status: [...chosen].at(-1) })}
          />
        </div>
      </div>
      {list.error && <FailurePanel error={list.error} />}
      <Panel flush>
        {!visibleRows && !list.error && <TableSkeleton />}
        {visibleRows?.length === 0 &&
          (isFiltered ? (
            <Empty icon={IconBox} title="No allocation matches">
              <Group justify="center">
                {search.q && (
                  <Button onClick={() => void goTo({ to: '/find', search: { id: search.q?.trim() } })}>
                    Find {search.q} anywhere
                  </Button>
                )}
                <Button variant="default" onClick={() => change({ q: undefined, status: undefined, pool: undefined })}>
                  Show all
                </Button>
              </Group>
            </Empty>
          ) : (
            <Empty icon={IconBox} title="Nothing is allocated">
              <p>
                An allocation brings up a machine for you. When you release it, you get proof that the machine is gone.
              </p>
              {allocate}
            </Empty>
          ))}
        {visibleRows && visibleRows.length > 0 && (
          <AllocationTable
            allocations={visibleRows}
            sort={search.sort}
            onSort={(sort) => change({ sort })}
            onAction={mayOperate(session) ? setAction : undefined}
          />
        )}
        <LoadMore list={list} />
      </Panel>
      <AllocateDialog
        opened={search.dialog === 'allocate'}
        onClose={() => change({ dialog: undefined })}
        pool={search.pool}
      />
      <RecoverDialog
        opened={search.dialog === 'recover'}
        onClose={() => change({ dialog: undefined })}
        pool={search.pool}
      />
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}
