/**
 * Writes the paired changes of allocations for bulk verdicts, in one statement. verdicts.test.ts
 * compares the result with `moveAllocations`.
 */
import type { AllocationStatus } from '../../../lifecycle/model/states.ts';
import { allocationEdges, findEdge, type PairedChange } from '../../../lifecycle/model/transitions.ts';
import type { Transaction } from '../../pg/database.ts';
import { type AllocationDeadline, computeAllocationColumns, findSharedDeadline } from '../allocation-transition.ts';
import { evidenceLayerOf, toArrayLiteral } from '../transition-rules.ts';
import { type NodeVerdict, renderIndividualEvidence } from './node-verdict.ts';

/** A node has at most one allocation in these statuses, the holder. */
const exclusiveStatuses: readonly AllocationStatus[] = ['provisioning', 'active'];

export interface PairedGroup {
  pair: PairedChange['allocation'];
  /** The deadline that the transition of the node has set. */
  node: AllocationDeadline;
  /** The redacted reason. */
  reason: string;
  evidence: Record<string, unknown>;
  members: readonly NodeVerdict[];
}

/** Whether all allocations of the group get the same columns because none has its own budget. */
export const isUniform = ({ pair, node }: Pick<PairedGroup, 'pair' | 'node'>): boolean =>
  exclusiveStatuses.includes(pair.from) && findSharedDeadline(pair.to, node) !== undefined && pair.to !== 'released';

const writeSql = `
  with shared as materialized (
    select *
    from json_to_recordset($5::json) as shared(
      group_index integer, was text, becomes text, deadline_at timestamptz, budget_seconds double precision,
      budget_source text, active_at timestamptz, reason text, owner_layer text, verdict jsonb, layer text,
      summary text, evidence jsonb, fact jsonb)),
  moved as (
    update allocations allocation set
      status = becomes,
      status_since = $6,
      deadline_at = shared.deadline_at,
      budget_seconds = shared.budget_seconds,
      budget_source = shared.budget_source,
      verdict = shared.verdict,
      reason = shared.reason,
      owner_layer = shared.owner_layer,
      active_at = coalesce(shared.active_at, allocation.active_at)
    from rows from (
      unnest($1::text[]),
      unnest($2::integer[]),
      jsonb_array_elements($3::jsonb),
      unnest($4::text[])
    ) as item(allocation_id, group_index, data, node_instance_id)
    join shared using (group_index)
    where allocation.allocation_id = item.allocation_id
      and allocation.status = was
    returning
      allocation.allocation_id, allocation.node_id, allocation.correlation_id, allocation.workflow_id,
      item.node_instance_id, data, group_index)
  insert into evidence (
    at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin)
  select
    $6, layer, 'allocation.' || becomes, summary, jsonb_set(fact, '{evidence}', evidence || data),
    node_id, node_instance_id, correlation_id, allocation_id, workflow_id, 'internal'
  from moved
  join shared using (group_index)`;

function computeSharedColumns({ pair, node, reason, evidence }: PairedGroup, now: Date) {
  const { from, to, by } = pair;
  const deadline = findSharedDeadline(to, node);
  if (!deadline || !findEdge(allocationEdges, from, to, by)) return undefined;
  const { status_since: _, ...set } = computeAllocationColumns({ to, by, reason, data: evidence }, deadline, now);
  const fact = { from, to, by, reason, set: { ...set, status_since: now } };
  const summary = `${from} → ${to}: ${reason}`;
  return { was: from, becomes: to, ...set, layer: evidenceLayerOf(by), summary, evidence, fact };
}

/**
 * The caller's locks on the nodes keep other transitions from changing these allocations. The
 * statement skips allocations that do not have the status of the pair.
 */
export async function movePaired(tx: Transaction, groups: readonly PairedGroup[], now: Date): Promise<void> {
  const sharedByGroup: object[] = [];
  const heldVerdicts: NodeVerdict[] = [];
  const groupIndexes: number[] = [];
  for (const group of groups) {
    const members = group.members.filter(({ node }) => node.holder !== null);
    const shared = members.length > 0 ? computeSharedColumns(group, now) : undefined;
    if (!shared) continue;
    for (const member of members) {
      heldVerdicts.push(member);
      groupIndexes.push(sharedByGroup.length);
    }
    sharedByGroup.push({ group_index: sharedByGroup.length, ...shared });
  }
  if (heldVerdicts.length === 0) return;
  const values = [
    toArrayLiteral(heldVerdicts.map(({ node }) => node.holder)),
    toArrayLiteral(groupIndexes),
    renderIndividualEvidence(heldVerdicts, tx.redact),
    toArrayLiteral(heldVerdicts.map(({ node }) => node.node_instance_id)),
    JSON.stringify(sharedByGroup),
    now,
  ];
  await tx.query(writeSql, values, { prepared: true });
  tx.markEvidenceWritten();
}
