/** What a node says about itself. A claim is recorded; where the tables let it, it changes the status, durably, before it is answered. */
import { secondsBetween } from '../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../base/ids.ts';
import type { AgentClaim, Heartbeat } from '../contract/agent.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import { amendNode } from './amend-node.ts';
import type { Database, Transaction } from './database.ts';
import { type NodeMove, transition } from './door.ts';
import type { DoorEnvironment } from './door-rules.ts';
import type { NodeRow } from './nodes.ts';

type Change = Pick<NodeMove, 'to' | 'by' | 'reason'>;

/** Where a claim takes a node that stands at a status; what is not here is recorded and changes nothing. */
function changeOf(node: NodeRow, claim: AgentClaim | undefined, now: Date): Change | undefined {
  const said = claim ?? node.reported_status ?? 'starting';
  switch (node.status) {
    case 'starting':
      return claim === 'ready' ? { to: 'ready', by: 'claim-ready', reason: 'the node said it is ready' } : undefined;
    case 'failed': {
      const open = node.deadline_at !== null && node.deadline_at > now && node.registered_at !== null;
      const lateness = secondsBetween(node.status_since, now).toFixed(1);
      return open && claim !== 'stopping'
        ? { to: 'starting', by: 'late-registration', reason: `it beats again, ${lateness} s after it was given up` }
        : undefined;
    }
    case 'offline':
      return claim === 'stopping'
        ? undefined
        : { to: said === 'degraded' ? 'degraded' : 'ready', by: 'heartbeat-returned', reason: 'it beats again' };
    case 'ready':
    case 'degraded':
      if (claim === 'stopping') return { to: 'offline', by: 'goodbye', reason: 'the node said goodbye' };
      if (claim === 'degraded' && node.status === 'ready')
        return { to: 'degraded', by: 'degraded', reason: 'the node says it is degraded' };
      if (claim === 'ready' && node.status === 'degraded')
        return { to: 'ready', by: 'degraded', reason: 'the node says it is well again' };
      return undefined;
    default:
      return undefined;
  }
}

/** Statuses that a beat alone, without any new claim, can change. */
export const movedByAnyBeat: readonly NodeStatus[] = ['failed', 'offline'];

const tellClaim = (tx: Transaction, node: NodeRow, claim: AgentClaim, beat: Heartbeat, now: Date): Promise<NodeRow> =>
  amendNode(
    tx,
    node,
    { reported_status: claim },
    {
      at: now,
      layer: 'node',
      kind: 'node.claim',
      summary: `the node says: ${claim}${beat.message ? ` (${beat.message})` : ''}`,
      data: { ...beat },
    },
  );

export type ClaimOutcome = { fenced: false; status: NodeStatus; reported_status: string | null } | { fenced: true };

export function recordClaim(
  db: Database,
  ids: { node_id: NodeId; node_instance_id: NodeInstanceId },
  beat: Heartbeat,
  now: Date,
  environment: DoorEnvironment,
): Promise<ClaimOutcome> {
  return db.transaction(async (tx) => {
    const [node] = await tx.query<NodeRow>('select * from nodes where node_id = $1 for no key update', [ids.node_id]);
    if (!node || node.node_instance_id !== ids.node_instance_id) return { fenced: true };
    if (beat.status && beat.status !== node.reported_status) await tellClaim(tx, node, beat.status, beat, now);
    const reported_status = beat.status ?? node.reported_status;
    const change = changeOf(node, beat.status, now);
    if (!change) return { fenced: false, status: node.status, reported_status };
    const [outcome] = await transition(
      tx,
      [{ ...change, ...ids, from: [node.status], set: { reported_status }, data: { ...beat } }],
      now,
      environment,
    );
    let status = outcome?.moved ? outcome.node.status : node.status;
    // A rescued node that already claims ready must not wait for its next beat to say so again.
    if (status === 'starting' && reported_status === 'ready') {
      const [promoted] = await transition(
        tx,
        [{ ...ids, to: 'ready', by: 'claim-ready', reason: 'the node said it is ready' }],
        now,
        environment,
      );
      if (promoted?.moved) status = promoted.node.status;
    }
    return { fenced: false, status, reported_status };
  });
}
