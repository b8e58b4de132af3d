/** All operations, newest first. */
import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Operation } from '../../../../src/contract/operation.ts';
import { type OperationStatus, operationStatuses } from '../../../../src/lifecycle/model/states.ts';
import { filters } from '../../api/cache/keys.ts';
import { operationsQuery } from '../../api/queries/operations.ts';
import { overviewQuery } from '../../api/queries/pools.ts';
import { seesWholeFleet, useSession } from '../../api/session.ts';
import { IconProgressCheck } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { operationLooks } from '../../ui/status/status-looks.ts';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { PillFilter } from '../../ui/table/PillFilter.tsx';
import { SearchField } from '../../ui/table/SearchField.tsx';
import { OperationTable } from './OperationTable.tsx';

const route = getRouteApi('/frame/operations');

const isStatus = (word: string | undefined): word is OperationStatus =>
  operationStatuses.some((status) => status === word);

const matchesSearch = (operation: Operation, q: string) =>
  [operation.kind, operation.workflow_id, operation.node_id, operation.allocation_id, operation.correlation_id]
    .join(' ')
    .toLowerCase()
    .includes(q);

export function OperationsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true });
  const session = useSession();

  const status = isStatus(search.status) ? search.status : undefined;
  const list = useInfiniteQuery(operationsQuery(filters({ status, kind: search.kind })));
  const overview = useQuery({ ...overviewQuery, enabled: seesWholeFleet(session) });
  const all = useMemo(() => list.data?.pages.flatMap((page) => page.items), [list.data]);
  const q = search.q?.toLowerCase();
  const visibleRows = useMemo(() => (q ? all?.filter((operation) => matchesSearch(operation, q)) : all), [all, q]);

  return (
    <>
      <PageHeader title="Operations" tab="Operations" below="Newest first" />
      <div className={toolbar.toolbar}>
        <SearchField label="Search kinds and ids" value={search.q} onChange={(q) => change({ q })} />
        <div className={toolbar.wide}>
          <PillFilter
            label="Status"
            looks={operationLooks}
            counts={overview.data?.operations ?? {}}
            always={operationStatuses}
            chosen={new Set(status ? [status] : [])}
            onChange={(chosen) => change({ status: [...chosen].at(-1) })}
          />
        </div>
      </div>
      {list.error && <FailurePanel error={list.error} />}
      <Panel flush>
        {!visibleRows && !list.error && <TableSkeleton />}
        {visibleRows?.length === 0 && (
          <Empty icon={IconProgressCheck} title={q || status ? 'No operation matches' : 'No operations yet'}>
            {q || status ? (
              <Button variant="default" onClick={() => change({ q: undefined, status: undefined, kind: undefined })}>
                Show all
              </Button>
            ) : (
              <p>
                Bringing up or taking down a machine is an operation. An operation survives restarts and shows its
                progress.
              </p>
            )}
          </Empty>
        )}
        {visibleRows && visibleRows.length > 0 && (
          <OperationTable operations={visibleRows} sort={search.sort} onSort={(sort) => change({ sort })} />
        )}
        <LoadMore list={list} />
      </Panel>
    </>
  );
}
