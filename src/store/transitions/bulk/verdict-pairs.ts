/**
 * The allocations that fall or rise with the nodes a rule has decided on: the half of door-verdicts.ts that writes allocations, by
 * the same means, and held against the door by the same test.
 */
import type { AllocationStatus } from '../../../lifecycle/model/states.ts';
import { allocationEdges, findEdge, type PairedChange } from '../../../lifecycle/model/transitions.ts';
import type { Transaction } from '../../pg/database.ts';
import type { JudgedNode } from '../../rows/judged.ts';
import { type AllocationDeadline, deadlineWithNode, enteringAllocation } from '../allocation-transition.ts';
import { evidenceLayerOf, listOf } from '../transition-rules.ts';
import { type NodeVerdict, ownEvidence } from './node-verdict.ts';

/** A node has at most one allocation that stands here, and that one holds it. */
const exclusive: readonly AllocationStatus[] = ['provisioning', 'active'];

export interface PairedWay {
  pair: PairedChange['allocation'];
  /** What the nodes' own change has set. */
  node: AllocationDeadline;
  /** With nothing in it that must not be kept. */
  reason: string;
  evidence: Record<string, unknown>;
  members: readonly NodeVerdict[];
}

/** Whether all that is written is the same for each allocation of this way; a budget of its own is looked up one by one. */
export const isWrittenTogether = ({ pair, node }: Pick<PairedWay, 'pair' | 'node'>): boolean =>
  exclusive.includes(pair.from) && deadlineWithNode(pair.to, node) !== undefined && pair.to !== 'released';

const writeSql = `
  with alike as materialized (
    select * from json_to_recordset($5::json) as alike(kind integer, was text, becomes text, deadline_at timestamptz, budget_seconds double precision,
      budget_source text, active_at timestamptz, reason text, owner_layer text, verdict jsonb, layer text, summary text, evidence jsonb, fact jsonb)),
  moved as (
    update allocations allocation set status = becomes, status_since = $6, deadline_at = alike.deadline_at, budget_seconds = alike.budget_seconds,
      budget_source = alike.budget_source, verdict = alike.verdict, reason = alike.reason, owner_layer = alike.owner_layer,
      active_at = coalesce(alike.active_at, allocation.active_at)
    from rows from (unnest($1::text[]), unnest($2::integer[]), jsonb_array_elements($3::jsonb), unnest($4::text[]))
      as one(allocation_id, kind, data, node_instance_id) join alike using (kind)
    where allocation.allocation_id = one.allocation_id and allocation.status = was
    returning allocation.allocation_id, allocation.node_id, allocation.correlation_id, allocation.workflow_id, one.node_instance_id, data, kind)
  insert into evidence (at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin)
  select $6, layer, 'allocation.' || becomes, summary, jsonb_set(fact, '{evidence}', evidence || data),
    node_id, node_instance_id, correlation_id, allocation_id, workflow_id, 'internal' from moved join alike using (kind)`;

function alikeFor({ pair, node, reason, evidence }: PairedWay, now: Date) {
  const { from, to, by } = pair;
  const deadline = deadlineWithNode(to, node);
  if (!deadline || !findEdge(allocationEdges, from, to, by)) return undefined;
  const { status_since: _, ...set } = enteringAllocation({ to, by, reason, data: evidence }, deadline, now);
  const fact = { from, to, by, reason, set: { ...set, status_since: now } };
  const summary = `${from} → ${to}: ${reason}`;
  return { was: from, becomes: to, ...set, layer: evidenceLayerOf(by), summary, evidence, fact };
}

/** Of the changes that go with a node's, the one that fits where its allocation was seen to stand; any, where nobody looked. */
const mayStandAt = ({ holder_status }: JudgedNode, from: AllocationStatus): boolean =>
  holder_status === undefined || holder_status === from;

/** Their nodes are locked and changed, so nothing else changes these allocations meanwhile; each is found by its id. */
export async function movePaired(tx: Transaction, ways: readonly PairedWay[], now: Date): Promise<void> {
  const kinds: object[] = [];
  const held: NodeVerdict[] = [];
  const kindOf: number[] = [];
  for (const way of ways) {
    const members = way.members.filter(({ node }) => node.holder !== null && mayStandAt(node, way.pair.from));
    const alike = members.length > 0 ? alikeFor(way, now) : undefined;
    if (!alike) continue;
    for (const member of members) {
      held.push(member);
      kindOf.push(kinds.length);
    }
    kinds.push({ kind: kinds.length, ...alike });
  }
  if (held.length === 0) return;
  const values = [
    listOf(held.map(({ node }) => node.holder)),
    listOf(kindOf),
    ownEvidence(held, tx.redact),
    listOf(held.map(({ node }) => node.node_instance_id)),
    JSON.stringify(kinds),
    now,
  ];
  await tx.query(writeSql, values, { often: true });
  tx.evidenceWritten();
}
