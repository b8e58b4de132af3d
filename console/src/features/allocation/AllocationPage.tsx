/** One allocation: its status and why, its operation, and all evidence with its id. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { isNotFound } from '../../api/failure.ts';
import { allocationActionsQuery, allocationQuery } from '../../api/queries/allocations.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import columns from '../../ui/layout/Columns.module.css';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { Labels } from '../../ui/layout/Labels.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { DetailSkeleton } from '../../ui/loading/Skeletons.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { Timeline } from '../evidence/Timeline.tsx';
import { OperationPanel } from '../operations/OperationPanel.tsx';
import { AllocationButtons } from './AllocationButtons.tsx';
import { AllocationRequests } from './AllocationRequests.tsx';
import { AllocationStatusPanel } from './AllocationStatusPanel.tsx';

const route = getRouteApi('/frame/allocations/$id');

export function AllocationPage() {
  const { id } = route.useParams();
  const { layer } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: allocation, error } = useQuery(allocationQuery(id));
  const offers = useQuery({ ...allocationActionsQuery(id), enabled: mayOperate(useSession()) });
  const [action, setAction] = useState<Action | null>(null);

  if (error && !allocation) {
    return (
      <>
        <PageHeader title={isNotFound(error) ? 'No such allocation' : 'Allocation'} tab="Allocation" above={<Back />} />
        <FailurePanel error={error} />
      </>
    );
  }
  // Wait for the buttons, so that the page does not jump.
  if (!allocation || offers.isLoading) return <DetailSkeleton />;

  return (
    <>
      <PageHeader
        title={allocation.name ?? shortId(id)}
        tab={allocation.name ?? shortId(id)}
        above={<Back />}
        below={<CopyId id={id} />}
        actions={<AllocationButtons allocation={allocation} onAction={setAction} />}
      />
      <div className={columns.stack}>
        <AllocationStatusPanel allocation={allocation} />
        {allocation.workflow_id && (
          <OperationPanel workflow_id={allocation.workflow_id} progress={allocation.progress} />
        )}
        <div className={columns.columns}>
          <Panel title="Timeline" flush>
            <Timeline
              subject={{ allocation_id: id }}
              layer={layer}
              onLayer={(layer) => void navigate({ search: { layer }, replace: true, resetScroll: false })}
            />
          </Panel>
          <AllocationFacts allocation={allocation} />
        </div>
      </div>
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}

const Back = () => (
  <Link to="/allocations" className="quiet-link">
    Allocations
  </Link>
);

const AllocationFacts = ({ allocation }: { allocation: Allocation }) => (
  <div className={columns.stack}>
    <Panel title="Facts">
      <Facts
        facts={[
          ['Pool', allocation.pool],
          ['Tenant', allocation.tenant],
          [
            'Node',
            allocation.node_id && (
              <Link to="/nodes/$id" params={{ id: allocation.node_id }}>
                <code>{shortId(allocation.node_id)}</code>
              </Link>
            ),
          ],
          ['Endpoint', allocation.endpoint && <CopyId id={allocation.endpoint} />],
          ['Requested', <Ago key="created" at={allocation.created_at} />],
          ['Active', allocation.active_at && <Ago at={allocation.active_at} />],
          ['Released', allocation.released_at && <Ago at={allocation.released_at} />],
          [
            'Certificate',
            allocation.status === 'released' && (
              <a href={`/v1/allocations/${allocation.allocation_id}/certificate`} download>
                Download certificate
              </a>
            ),
          ],
          ['Labels', Object.keys(allocation.labels).length > 0 && <Labels labels={allocation.labels} />],
        ]}
      />
    </Panel>
    <Panel title="Ids">
      <Facts
        facts={[
          ['allocation_id', <CopyId key="a" id={allocation.allocation_id} />],
          ['node_id', allocation.node_id && <CopyId id={allocation.node_id} />],
          ['workflow_id', allocation.workflow_id && <CopyId id={allocation.workflow_id} />],
          ['correlation_id', <CopyId key="c" id={allocation.correlation_id} />],
        ]}
      />
    </Panel>
    <AllocationRequests allocation={allocation} />
  </div>
);
