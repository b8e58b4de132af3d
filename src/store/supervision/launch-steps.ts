/** Reads the current step of operations that are late, with its last error. */
import type { NodeId, WorkflowId } from '../../base/ids.ts';
import type { LaunchStep, OpenStep } from '../../lifecycle/findings/launch-blame.ts';
import type { Queryable } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';

export type OpenLaunchStep = Omit<LaunchStep, 'owner_layer'> & { driver: string; spec: unknown };

type LaunchedNode = Pick<NodeRow, 'node_id' | 'workflow_id'>;

/** The result is keyed by node and omits nodes without an unfinished step. */
export async function readOpenLaunchSteps(
  db: Queryable,
  nodes: readonly LaunchedNode[],
): Promise<Map<NodeId, OpenLaunchStep>> {
  const launched = nodes.filter(({ workflow_id }) => workflow_id !== null);
  if (launched.length === 0) return new Map();
  const rows = await db.query<OpenLaunchStep & { node_id: NodeId }>(
    `select
       launched.node_id, step.name, step.error,
       operation.progress ->> 'message' as reported,
       operation.status = 'queued' as is_queued,
       pool.driver,
       coalesce(generation.document -> 'spec', '{}') as spec
     from unnest($1::text[], $2::text[]) as launched(node_id, workflow_id)
     join operations operation on operation.workflow_id = launched.workflow_id
     join nodes node on node.node_id = launched.node_id
     join pools pool on pool.name = node.pool
     join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
     cross join lateral (
       select steps.name, steps.error
       from steps
       where steps.workflow_id = operation.workflow_id
         and steps.status not in ('done', 'skipped')
       order by steps.ordinal
       limit 1) step`,
    [launched.map(({ node_id }) => node_id), launched.map(({ workflow_id }) => workflow_id)],
    { prepared: true },
  );
  return new Map(rows.map(({ node_id, ...step }) => [node_id, step]));
}

/** The result is keyed by operation and omits operations without an unfinished step. */
export async function readOpenSteps(
  db: Queryable,
  workflow_ids: readonly (WorkflowId | null)[],
): Promise<Map<WorkflowId, OpenStep>> {
  const ids = workflow_ids.filter((id) => id !== null);
  if (ids.length === 0) return new Map();
  const rows = await db.query<OpenStep & { workflow_id: WorkflowId }>(
    `select
       operation.workflow_id, step.name,
       -- An operation that ended may have its error only on itself.
       coalesce(step.error, operation.error) as error,
       operation.progress ->> 'message' as reported,
       operation.status = 'queued' as is_queued
     from operations operation
     cross join lateral (
       select steps.name, steps.error
       from steps
       where steps.workflow_id = operation.workflow_id
         and steps.status not in ('done', 'skipped')
       order by steps.ordinal
       limit 1) step
     where operation.workflow_id = any($1)`,
    [ids],
    { prepared: true },
  );
  return new Map(rows.map(({ workflow_id, ...step }) => [workflow_id, step]));
}
