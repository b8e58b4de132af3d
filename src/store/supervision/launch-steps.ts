/** Where the operations that bring nodes up stand: the first step of each that is not over, with its last error. */
import type { NodeId } from '../../base/ids.ts';
import type { LaunchStep } from '../../lifecycle/findings/launch-blame.ts';
import type { Queryable } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';

export type OpenLaunchStep = Omit<LaunchStep, 'owner_layer'> & { driver: string; spec: unknown };

type Asked = Pick<NodeRow, 'node_id' | 'workflow_id'>;

/** By node; none for a node that no operation brings up. */
export async function openLaunchSteps(db: Queryable, nodes: readonly Asked[]): Promise<Map<NodeId, OpenLaunchStep>> {
  const asked = nodes.filter(({ workflow_id }) => workflow_id !== null);
  if (asked.length === 0) return new Map();
  const rows = await db.query<OpenLaunchStep & { node_id: NodeId }>(
    `select asked.node_id, step.name, step.error, operation.progress ->> 'message' as reported,
       operation.status = 'queued' as is_queued, pool.driver, coalesce(generation.document -> 'spec', '{}') as spec
     from unnest($1::text[], $2::text[]) as asked(node_id, workflow_id)
     join operations operation on operation.workflow_id = asked.workflow_id
     join nodes node on node.node_id = asked.node_id
     join pools pool on pool.name = node.pool
     join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
     cross join lateral (
       select steps.name, steps.error
       from steps
       where steps.workflow_id = operation.workflow_id
         and steps.status not in ('done', 'skipped')
       order by steps.ordinal
       limit 1) step`,
    [asked.map(({ node_id }) => node_id), asked.map(({ workflow_id }) => workflow_id)],
    { often: true },
  );
  return new Map(rows.map(({ node_id, ...step }) => [node_id, step]));
}
