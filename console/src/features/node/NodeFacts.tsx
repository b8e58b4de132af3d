/** Shows the facts of a node: our records, its own report, and the driver's observation. */

import { Link } from '@tanstack/react-router';
import type { Node } from '../../../../src/contract/node.ts';
import { displayOccupancy } from '../../../../src/lifecycle/model/states.ts';
import columns from '../../ui/layout/Columns.module.css';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { Labels } from '../../ui/layout/Labels.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { humanize } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';

const id = (value: string | null) => value && <CopyId id={value} />;
const ago = (value: string | null) => value && <Ago at={value} />;
const textOf = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : String(value));

/** Occupancy `cleanup` without an allocation means that a release was forced. */
const OccupancyFact = ({ node: { occupancy, allocation_id } }: { node: Node }) =>
  occupancy === 'cleanup' && allocation_id === null ? (
    <>
      cleanup, see the <Link to="/residue">residue</Link>
    </>
  ) : (
    occupancy
  );

export function NodeFacts({ node }: { node: Node }) {
  return (
    <div className={columns.stack}>
      <Panel title="Facts">
        <Facts
          facts={[
            ['Pool', node.pool],
            ['Zone', node.zone],
            ['Occupancy', displayOccupancy(node) && <OccupancyFact node={node} />],
            ['Fenced', node.fenced && (node.fence_reason ?? 'yes')],
            [
              'Allocation',
              node.allocation_id && (
                <Link to="/allocations/$id" params={{ id: node.allocation_id }}>
                  <code>{shortId(node.allocation_id)}</code>
                </Link>
              ),
            ],
            ['Endpoint', node.endpoint && <CopyId id={node.endpoint} />],
            ['Created', ago(node.created_at)],
            ['Registered', ago(node.registered_at)],
            ['Agent', node.agent_version],
            ['Last seen', ago(node.last_seen_at)],
            ['Restarts', node.restarts > 0 && node.restarts],
            ['Labels', Object.keys(node.labels).length > 0 && <Labels labels={node.labels} />],
          ]}
        />
      </Panel>
      <Panel title="Ids">
        <Facts
          facts={[
            ['node_id', id(node.node_id)],
            ['node_instance_id', id(node.node_instance_id)],
            ['allocation_id', id(node.allocation_id)],
            ['workflow_id', id(node.workflow_id)],
          ]}
        />
      </Panel>
      {node.reported && Object.keys(node.reported).length > 0 && (
        <Panel title="Reported by the node">
          <Facts facts={Object.entries(node.reported).map(([name, value]) => [humanize(name), textOf(value)])} />
        </Panel>
      )}
      {node.observed && (
        <Panel title="Reported by the driver">
          <Facts
            facts={[
              ['State', node.observed.state],
              ['Seen', ago(node.observed.at)],
            ]}
          />
        </Panel>
      )}
    </div>
  );
}
