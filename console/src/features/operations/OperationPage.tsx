/** One operation: its progress, its steps and its evidence. */

import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Operation } from '../../../../src/contract/operation.ts';
import { isNotFound } from '../../api/failure.ts';
import { operationQuery } from '../../api/queries/operations.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import columns from '../../ui/layout/Columns.module.css';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { DetailSkeleton } from '../../ui/loading/Skeletons.tsx';
import { OperationStatusBadge } from '../../ui/status/StatusBadges.tsx';
import { humanize } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Took } from '../../ui/time/Took.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { Timeline } from '../evidence/Timeline.tsx';
import { canCancel, cancelAction, canRetryOperation, retryOperationAction } from './operation-actions.ts';
import { ProgressBanner } from './ProgressBanner.tsx';

const route = getRouteApi('/frame/operations/$id');

export function OperationPage() {
  const { id } = route.useParams();
  const { layer } = route.useSearch();
  const navigate = route.useNavigate();
  const session = useSession();
  const { data: operation, error } = useQuery(operationQuery(id));
  const [action, setAction] = useState<Action | null>(null);

  if (error && !operation) {
    return (
      <>
        <PageHeader title={isNotFound(error) ? 'No such operation' : 'Operation'} tab="Operation" above={<Back />} />
        <FailurePanel error={error} />
      </>
    );
  }
  if (!operation) return <DetailSkeleton />;

  return (
    <>
      <PageHeader
        title={humanize(operation.kind)}
        tab={humanize(operation.kind)}
        above={<Back />}
        beside={<OperationStatusBadge status={operation.status} large />}
        below={<CopyId id={id} />}
        actions={
          mayOperate(session) && (
            <>
              {canRetryOperation(operation) && (
                <Button onClick={() => setAction(retryOperationAction(operation))}>Retry</Button>
              )}
              {canCancel(operation) && (
                <Button color="red" variant="light" onClick={() => setAction(cancelAction(operation))}>
                  Cancel
                </Button>
              )}
            </>
          )
        }
      />
      <div className={columns.stack}>
        <ProgressBanner progress={operation.progress} steps={operation.steps} />
        <div className={columns.columns}>
          <Panel title="Timeline" flush>
            <Timeline
              subject={{ workflow_id: id }}
              layer={layer}
              onLayer={(layer) => void navigate({ search: { layer }, replace: true, resetScroll: false })}
            />
          </Panel>
          <OperationFacts operation={operation} />
        </div>
      </div>
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}

const Back = () => (
  <Link to="/operations" className="quiet-link">
    Operations
  </Link>
);

const OperationFacts = ({ operation }: { operation: Operation }) => (
  <div className={columns.stack}>
    <Panel title="Facts">
      <Facts
        facts={[
          ['Kind', <code key="kind">{operation.kind}</code>],
          ['Attempt', operation.attempt],
          ['Requested by', operation.actor?.name],
          ['Requested', <Ago key="created" at={operation.created_at} />],
          ['Started', operation.started_at && <Ago at={operation.started_at} />],
          ['Finished', operation.finished_at && <Ago at={operation.finished_at} />],
          ['Took', operation.started_at && <Took operation={operation} />],
          [
            'Node',
            operation.node_id && (
              <Link to="/nodes/$id" params={{ id: operation.node_id }}>
                <code>{shortId(operation.node_id)}</code>
              </Link>
            ),
          ],
          [
            'Allocation',
            operation.allocation_id && (
              <Link to="/allocations/$id" params={{ id: operation.allocation_id }}>
                <code>{shortId(operation.allocation_id)}</code>
              </Link>
            ),
          ],
        ]}
      />
    </Panel>
    <Panel title="Ids">
      <Facts
        facts={[
          ['workflow_id', <CopyId key="w" id={operation.workflow_id} />],
          ['allocation_id', operation.allocation_id && <CopyId id={operation.allocation_id} />],
          ['node_id', operation.node_id && <CopyId id={operation.node_id} />],
          ['node_instance_id', operation.node_instance_id && <CopyId id={operation.node_instance_id} />],
          ['correlation_id', <CopyId key="c" id={operation.correlation_id} />],
          ['replica_id', operation.replica_id && <CopyId id={operation.replica_id} />],
        ]}
      />
    </Panel>
  </div>
);
