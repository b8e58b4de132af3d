/** Reads the state of the pools of all cases. */
import { now } from '../../../src/base/clock.ts';
import type { OperationFixture } from './operation-fixture.ts';
import type { View } from './situations.ts';

type InPool<Row> = Row & { pool: string };

const nodesSql = 'select pool, node_id, node_instance_id, status from nodes order by created_at, node_id';
const allocationsSql = `
  select pool, allocation_id, status, coalesce(deadline_at <= $1, true) as "isPastDeadline"
  from allocations
  order by created_at, allocation_id`;
const openOperationsSql = `
  select coalesce(allocation.pool, node.pool, operation.params ->> 'pool', operation.params #>> '{filter,pool}') as pool
  from operations operation
  left join allocations allocation on allocation.allocation_id = operation.allocation_id
  left join nodes node on node.node_id = operation.node_id
  where operation.finished_at is null`;

export async function readViews({ db, clock }: OperationFixture, pools: readonly string[]): Promise<Map<string, View>> {
  const views = new Map<string, View>(pools.map((pool) => [pool, { nodes: [], allocations: [], openOperations: 0 }]));
  const [nodes, allocations, openOperations] = await Promise.all([
    db.query<InPool<View['nodes'][number]>>(nodesSql),
    db.query<InPool<View['allocations'][number]>>(allocationsSql, [now(clock)]),
    db.query<{ pool: string }>(openOperationsSql),
  ]);
  for (const { pool, ...node } of nodes) views.get(pool)?.nodes.push(node);
  for (const { pool, ...allocation } of allocations) views.get(pool)?.allocations.push(allocation);
  for (const { pool } of openOperations) {
    const view = views.get(pool);
    if (view) view.openOperations++;
  }
  return views;
}
