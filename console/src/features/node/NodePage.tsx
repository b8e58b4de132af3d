/** One machine: status and why, evidence, logs, boot stages and operations. */

import { Button, Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Node } from '../../../../src/contract/node.ts';
import type { Session } from '../../../../src/contract/security/token.ts';
import type { Explanation } from '../../../../src/contract/supervision/explanation.ts';
import { isNotFound } from '../../api/failure.ts';
import { allocationQuery } from '../../api/queries/allocations.ts';
import { explanationQuery, nodeQuery } from '../../api/queries/nodes.ts';
import { mayOperate, seesWholeFleet, useSession } from '../../api/session.ts';
import columns from '../../ui/layout/Columns.module.css';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { DetailSkeleton } from '../../ui/loading/Skeletons.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { AllocationButtons } from '../allocation/AllocationButtons.tsx';
import { hasButton } from '../allocation/allocation-actions.ts';
import { FindingList } from '../drift/FindingList.tsx';
import { Timeline } from '../evidence/Timeline.tsx';
import { OperationPanel } from '../operations/OperationPanel.tsx';
import { BootStages } from './BootStages.tsx';
import { Diagnostics } from './Diagnostics.tsx';
import { Logs } from './logs/Logs.tsx';
import { NodeMenu, NodeWaysOut } from './NodeButtons.tsx';
import { NodeFacts } from './NodeFacts.tsx';
import { NodeOperations } from './NodeOperations.tsx';
import { NodeStatusPanel } from './NodeStatusPanel.tsx';

const mayActOnNodes = (session: Session) => mayOperate(session) && seesWholeFleet(session);

const route = getRouteApi('/frame/nodes/$id');

export function NodePage() {
  const { id } = route.useParams();
  const { data: node, error } = useQuery(nodeQuery(id));
  const explanation = useQuery(explanationQuery(id));
  const session = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true, resetScroll: false });

  if (error && !node) {
    return (
      <>
        <PageHeader title={isNotFound(error) ? 'No such node' : 'Node'} tab="Node" above={<Back />} />
        <FailurePanel error={error} />
      </>
    );
  }
  if (!node || explanation.isPending) return <DetailSkeleton />;

  return (
    <>
      <PageHeader
        title={node.name}
        tab={node.name}
        above={<Back pool={node.pool} />}
        below={<CopyId id={node.node_id} />}
        actions={<Buttons node={node} offers={explanation.data?.actions} onAction={setAction} />}
      />
      <div className={columns.stack}>
        {explanation.data ? (
          <NodeStatusPanel
            node={node}
            explanation={explanation.data}
            onAction={mayActOnNodes(session) ? setAction : undefined}
          />
        ) : (
          <FailurePanel error={explanation.error} />
        )}
        {explanation.data && explanation.data.findings.length > 0 && (
          <Panel title="Findings on this machine" flush>
            <FindingList
              findings={explanation.data.findings}
              onAction={mayActOnNodes(session) ? setAction : undefined}
              hideSubject
            />
          </Panel>
        )}
        {node.workflow_id && <OperationPanel workflow_id={node.workflow_id} />}
        <div className={columns.columns}>
          <Panel flush>
            <Tabs
              value={search.tab ?? 'timeline'}
              onChange={(tab) => change({ tab: tab === 'timeline' ? undefined : (tab ?? undefined), q: undefined })}
              keepMounted={false}
            >
              <Tabs.List pt={4} px={8}>
                <Tabs.Tab value="timeline">Timeline</Tabs.Tab>
                <Tabs.Tab value="logs">Logs</Tabs.Tab>
                <Tabs.Tab value="boot">Boot</Tabs.Tab>
                <Tabs.Tab value="diagnostics">Diagnostics</Tabs.Tab>
                <Tabs.Tab value="operations">Operations</Tabs.Tab>
              </Tabs.List>
              <Tabs.Panel value="timeline">
                <Timeline subject={{ node_id: id }} layer={search.layer} onLayer={(layer) => change({ layer })} />
              </Tabs.Panel>
              <Tabs.Panel value="logs">
                <Logs node={node} instance={search.instance} q={search.q} onChange={change} />
              </Tabs.Panel>
              <Tabs.Panel value="boot">
                <BootStages node_id={id} instance={search.instance ?? node.node_instance_id} />
              </Tabs.Panel>
              <Tabs.Panel value="diagnostics">
                <Diagnostics node_id={id} />
              </Tabs.Panel>
              <Tabs.Panel value="operations">
                <NodeOperations node_id={id} />
              </Tabs.Panel>
            </Tabs>
          </Panel>
          <NodeFacts node={node} />
        </div>
      </div>
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}

const Back = ({ pool }: { pool?: string }) => (
  <>
    <Link to="/fleet" className="quiet-link">
      Fleet
    </Link>
    {pool && (
      <>
        {' / '}
        <Link to="/fleet" search={{ pool }} className="quiet-link">
          {pool}
        </Link>
      </>
    )}
  </>
);

interface ButtonsProps {
  node: Node;
  offers: Explanation['actions'] | undefined;
  onAction: (action: Action) => void;
}

function Buttons({ node, offers, onAction }: ButtonsProps) {
  const actionProps = mayActOnNodes(useSession()) && offers ? { node, offers, onAction } : null;
  const { data: allocation } = useQuery({
    ...allocationQuery(node.allocation_id ?? ''),
    enabled: node.allocation_id !== null,
  });
  return (
    <>
      {node.allocation_id && (
        <Button variant="default" component={Link} to="/allocations/$id" params={{ id: node.allocation_id } as never}>
          Allocation
        </Button>
      )}
      {actionProps && <NodeWaysOut {...actionProps} />}
      {allocation && (
        <AllocationButtons
          allocation={allocation}
          onAction={onAction}
          only={actionProps ? (action) => action === 'release' : hasButton}
        />
      )}
      {actionProps && <NodeMenu {...actionProps} />}
    </>
  );
}
