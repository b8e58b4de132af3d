/** Starts the supervision of nodes that begin to serve, with or without a heartbeat so far. */
import type { PoolDocument } from '../../contract/pool.ts';
import { effectiveStaleSeconds, heartbeatPolicy } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { rowPadding } from './store-heartbeats.ts';

export const servingStatuses: readonly NodeStatus[] = ['ready', 'degraded'];

/** Returns undefined for nodes that need no supervision now. */
export function toExpectedBeat(
  node: Pick<NodeRow, 'status' | 'registered_at' | 'node_instance_id'> & { pool_document: PoolDocument },
) {
  if (!servingStatuses.includes(node.status) || !node.registered_at || !node.node_instance_id) return undefined;
  const { interval_seconds, stale_after_seconds } = heartbeatPolicy(node.pool_document.heartbeat);
  return {
    node_instance_id: node.node_instance_id,
    // The heartbeat that made the node ready may still wait in the buffer. Any later time than the
    // registration would make that heartbeat look old.
    last_seen_at: node.registered_at,
    interval_seconds,
    stale_seconds: effectiveStaleSeconds(stale_after_seconds, interval_seconds),
  };
}

export async function expectBeats(
  tx: Transaction,
  expected: (ReturnType<typeof toExpectedBeat> | undefined)[],
): Promise<void> {
  const beats = expected.filter((beat) => beat !== undefined);
  if (beats.length === 0) return;
  await tx.query(
    `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, room)
     select node_instance_id, last_seen_at, interval_seconds, stale_seconds, ${rowPadding}
     from jsonb_to_recordset($1::jsonb)
       as beat(node_instance_id text, last_seen_at timestamptz, interval_seconds real, stale_seconds real)
     order by node_instance_id
     on conflict do nothing`,
    [JSON.stringify(beats)],
    { prepared: true },
  );
}
