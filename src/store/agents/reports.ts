/**
 * Records what a node reports about itself. If the rules allow it, the report changes the node's
 * status; the change is durable before the agent gets its reply.
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

const storeReportedStatus = (
  tx: Transaction,
  node: NodeRow,
  reported_status: NonNullable<Heartbeat['status']>,
  beat: Heartbeat,
  now: Date,
): Promise<NodeRow> =>
  amendNode(
    tx,
    node,
    { reported_status },
    {
      at: now,
      layer: 'node',
      kind: 'node.claim',
      summary: `the node reports ${reported_status}${beat.message ? ` (${beat.message})` : ''}`,
      data: { ...beat },
    },
  );

export interface ReportedState {
  status: NodeStatus;
  reported_status: string | null;
  verdict_rule: string | null;
}

export type ReportOutcome = ({ fenced: false } & ReportedState) | { fenced: true };

const stateOf = (node: NodeRow): ReportedState => ({
  status: node.status,
  reported_status: node.reported_status,
  verdict_rule: node.verdict?.rule ?? null,
});

export interface Reporter {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  stale_seconds: number;
  /** Set for a report that is recorded later than it was received. */
  received_at?: Date;
}

/**
 * Returns whether the machine went to another tenant after the report was received
 * (clear-reports.ts). The caller holds the row lock on the node, so the machine cannot change hands
 * meanwhile.
 */
async function isOfFormerTenant(tx: Transaction, { node_instance_id, received_at }: Reporter): Promise<boolean> {
  if (!received_at) return false;
  const rows = await tx.query(
    `select 1
     from heartbeats
     where node_instance_id = $1
       and reports_since > $2`,
    [node_instance_id, received_at],
  );
  return rows.length > 0;
}

export function recordReport(
  db: Database,
  reporter: Reporter,
  beat: Heartbeat,
  now: Date,
  environment: TransitionEnvironment,
): Promise<ReportOutcome> {
  const { stale_seconds, node_id, node_instance_id } = reporter;
  const ids = { node_id, node_instance_id };
  return db.transaction(async (tx) => {
    const [locked] = await tx.query<NodeRow>(
      'select * from nodes where node_id = $1 for no key update',
      [ids.node_id],
      { prepared: true },
    );
    if (!locked || locked.node_instance_id !== ids.node_instance_id) return { fenced: true };
    if (await isOfFormerTenant(tx, reporter)) return { fenced: false, ...stateOf(locked) };
    const before = locked.reported_status;
    let node = locked;
    if (beat.status && beat.status !== node.reported_status)
      node = await storeReportedStatus(tx, node, beat.status, beat, now);
    if (beat.boot_stage)
      node = await noteAdvance(tx, node, [{ kind: 'reported_stage', code: beat.boot_stage }], now, environment);
    // The first round may rescue the node to `starting`. The second makes it ready if it already
    // reported ready; otherwise the node would stay `starting` until its next heartbeat.
    for (const isRescued of [false, true]) {
      const facts = { ...node, stale_seconds, reported_status: isRescued ? node.reported_status : before };
      const report = isRescued ? { ...beat, status: (node.reported_status ?? undefined) as Heartbeat['status'] } : beat;
      const change = environment.decide.effectOfBeat(facts, report, now);
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
    return { fenced: false, ...stateOf(node) };
  });
}
