/** Findings: where rows, evidence and providers disagree, repeated failures, and slower boots. */
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type FindingStatus, findingStatuses } from '../../../../src/lifecycle/findings/findings.ts';
import { filters } from '../../api/cache/keys.ts';
import { findingsQuery } from '../../api/queries/findings.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { IconScale } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { findingLooks } from '../../ui/status/status-looks.ts';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { PillFilter } from '../../ui/table/PillFilter.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { FindingList } from './FindingList.tsx';

const route = getRouteApi('/frame/drift');

const isStatus = (word: string | undefined): word is FindingStatus => findingStatuses.some((status) => status === word);

export function DriftPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (status: string | undefined) =>
    void navigate({ search: status === 'open' || !status ? {} : { status }, replace: true });
  const session = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const status = isStatus(search.status) ? search.status : 'open';
  const list = useInfiniteQuery(findingsQuery(filters({ status })));
  const findings = list.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <PageHeader
        title="Drift"
        tab="Drift"
        below="Disagreements with providers and evidence, repeated failures, and slower boots"
      />
      <div className={toolbar.toolbar}>
        <PillFilter
          label="Status"
          looks={findingLooks}
          always={findingStatuses}
          chosen={new Set([status])}
          onChange={(chosen) => choose([...chosen].findLast((word) => word !== status))}
        />
      </div>
      {list.error && <FailurePanel error={list.error} />}
      <Panel title="Findings" flush>
        {!findings && !list.error && <TableSkeleton />}
        {findings?.length === 0 && (
          <Empty icon={IconScale} title={status === 'open' ? 'Both sides agree' : `No finding is ${status}`}>
            {status === 'open' ? (
              <p>
                Slipway compares every row with its provider and its evidence. If they disagree twice, you can repair or
                accept the difference here.
              </p>
            ) : (
              <Button variant="default" onClick={() => choose(undefined)}>
                Show open findings
              </Button>
            )}
          </Empty>
        )}
        {findings && findings.length > 0 && (
          <FindingList findings={findings} onAction={mayOperate(session) ? setAction : undefined} />
        )}
        <LoadMore list={list} />
      </Panel>
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}
