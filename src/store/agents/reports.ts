/**
 * What a node says about itself. A claim is recorded; where the rules let it, it changes the
 * status, durably, before it is answered.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Heartbeat } from '../../contract/agent/agent.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Database, Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { noteAdvance } from '../transitions/advance.ts';
import { amendNode } from '../transitions/amend-node.ts';
import { transition } from '../transitions/node-transition.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';

const tellClaim = (
  tx: Transaction,
  node: NodeRow,
  claim: NonNullable<Heartbeat['status']>,
  beat: Heartbeat,
  now: Date,
): Promise<NodeRow> =>
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

export interface Standing {
  status: NodeStatus;
  reported_status: string | null;
  verdict_rule: string | null;
}

export type ReportOutcome = ({ fenced: false } & Standing) | { fenced: true };

const standingOf = (node: NodeRow): Standing => ({
  status: node.status,
  reported_status: node.reported_status,
  verdict_rule: node.verdict?.rule ?? null,
});

export interface Claiming {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  stale_seconds: number;
  /** Of a report that is recorded later than it was received. */
  received_at?: Date;
}

/**
 * Whether the machine has gone to another tenant since (handover.ts). The lock on its node keeps
 * the answer true.
 */
async function isOfFormerTenant(tx: Transaction, { node_instance_id, received_at }: Claiming): Promise<boolean> {
  if (!received_at) return false;
  const handedOver = await tx.query('select 1 from heartbeats where node_instance_id = $1 and reports_since > $2', [
    node_instance_id,
    received_at,
  ]);
  return handedOver.length > 0;
}

export function recordReport(
  db: Database,
  claiming: Claiming,
  beat: Heartbeat,
  now: Date,
  environment: TransitionEnvironment,
): Promise<ReportOutcome> {
  const { stale_seconds, node_id, node_instance_id } = claiming;
  const ids = { node_id, node_instance_id };
  return db.transaction(async (tx) => {
    const [locked] = await tx.query<NodeRow>(
      'select * from nodes where node_id = $1 for no key update',
      [ids.node_id],
      { often: true },
    );
    if (!locked || locked.node_instance_id !== ids.node_instance_id) return { fenced: true };
    if (await isOfFormerTenant(tx, claiming)) return { fenced: false, ...standingOf(locked) };
    const before = locked.reported_status;
    let node = locked;
    if (beat.status && beat.status !== node.reported_status) node = await tellClaim(tx, node, beat.status, beat, now);
    if (beat.boot_stage)
      node = await noteAdvance(tx, node, [{ kind: 'reported_stage', code: beat.boot_stage }], now, environment);
    // A rescued node that already claims ready must not wait for its next beat to say so again, so
    // each change is followed by a look.
    for (let looks = 0; looks < 2; looks++) {
      const facts = { ...node, stale_seconds, reported_status: looks === 0 ? before : node.reported_status };
      const said = looks === 0 ? beat : { ...beat, status: (node.reported_status ?? undefined) as Heartbeat['status'] };
      const change = environment.decide.effectOfBeat(facts, said, now);
      if (!change) break;
      const [outcome] = await transition(
        tx,
        [{ ...change, ...ids, from: [node.status], data: { ...beat } }],
        now,
        environment,
      );
      if (!outcome?.moved) break;
      node = outcome.node;
      if (node.status !== 'starting') break;
    }
    return { fenced: false, ...standingOf(node) };
  });
}
