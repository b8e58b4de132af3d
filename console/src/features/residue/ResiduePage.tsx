/** The residue ledger: resources that may be left at a provider without an owner. */
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type ResidueStatus, residueStatuses } from '../../../../src/lifecycle/findings/residue.ts';
import { filters } from '../../api/cache/keys.ts';
import { residueQuery } from '../../api/queries/residue.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { IconLeaf } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { residueLooks } from '../../ui/status/status-looks.ts';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { PillFilter } from '../../ui/table/PillFilter.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { ResidueTable } from './ResidueTable.tsx';
import { residueHeadline } from './words.ts';

const route = getRouteApi('/frame/residue');

const isStatus = (word: string | undefined): word is ResidueStatus => residueStatuses.some((status) => status === word);

export function ResiduePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true, resetScroll: false });
  const choose = (status: string | undefined) => change({ status: status === 'open' ? undefined : status });
  const session = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const status = isStatus(search.status) ? search.status : 'open';
  const list = useInfiniteQuery(residueQuery(filters({ status, pool: search.pool })));
  const rows = list.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <PageHeader
        title="Residue"
        tab="Residue"
        below={residueHeadline(status === 'open' ? rows : undefined, !list.hasNextPage)}
      />
      <div className={toolbar.toolbar}>
        <PillFilter
          label="Status"
          looks={residueLooks}
          always={residueStatuses}
          chosen={new Set([status])}
          onChange={(chosen) => choose([...chosen].findLast((word) => word !== status))}
        />
      </div>
      {list.error && <FailurePanel error={list.error} />}
      <Panel flush>
        {!rows && !list.error && <TableSkeleton />}
        {rows?.length === 0 && <Nothing status={status} onShowOpen={() => choose(undefined)} />}
        {rows && rows.length > 0 && (
          <ResidueTable
            rows={rows}
            sort={search.sort}
            onSort={(sort) => change({ sort })}
            onAction={mayOperate(session) ? setAction : undefined}
          />
        )}
        <LoadMore list={list} />
      </Panel>
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}

const Nothing = ({ status, onShowOpen }: { status: ResidueStatus; onShowOpen: () => void }) =>
  status === 'open' ? (
    <Empty icon={IconLeaf} title="Nothing is left behind">
      <p>
        Resources without an owner appear here, and resources that a forced release left. Slipway checks them until they
        are gone.
      </p>
    </Empty>
  ) : (
    <Empty icon={IconLeaf} title={`No entry is ${status}`}>
      <Button variant="default" onClick={onShowOpen}>
        Show open entries
      </Button>
    </Empty>
  );
