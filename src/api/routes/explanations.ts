/** Explains why a node has its status, lists the actions on it and runs them. */

import { iso, now } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { Holder } from '../../contract/supervision/explanation.ts';
import type { ActionCaller } from '../../lifecycle/actions/action-table.ts';
import { type ActionSubject, offeredActions } from '../../lifecycle/actions/actions.ts';
import { findRepeatedFailure, orderOffers, type RepeatedFailure } from '../../lifecycle/actions/order-offers.ts';
import { findSlowStages } from '../../lifecycle/boots/slow-stages.ts';
import { explain } from '../../lifecycle/explain/explain.ts';
import type { Holder as ExplainedHolder, ExplainedNode } from '../../lifecycle/explain/explanation.ts';
import { describeNodeStatus } from '../../lifecycle/explain/node-means.ts';
import { isStillRefused, type RefusedBeats, readRefusedBeats } from '../../lifecycle/findings/refused-beats.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import { readNodeSubject } from '../../operations/actions/action-subjects.ts';
import { actOnNode } from '../../operations/actions/node-actions.ts';
import { nodeReimageKind } from '../../operations/provision/node-reimage.ts';
import { readBootStages } from '../../store/agents/boot-stages.ts';
import { bootSubject } from '../../store/boots/boot-shifts.ts';
import { readCitedEvidence, readUsualStages } from '../../store/evidence/explanation-evidence.ts';
import { readOperation } from '../../store/operations/operations.ts';
import { readHolder } from '../../store/rows/allocations.ts';
import { readOpenFindings } from '../../store/rows/findings.ts';
import { readOpenResidueIds } from '../../store/rows/node-residue.ts';
import { joinedRow, nodeWire } from '../../store/rows/nodes.ts';
import { readGenerationDocument } from '../../store/rows/pools.ts';
import { readNewestGaps } from '../../store/supervision/ingest-gaps.ts';
import { notFoundProblem } from '../http/replies/gone.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { callerOf, predictionWire, readQueuedOperation } from './allocations.ts';
import { findingWire } from './drift.ts';

async function mustFindNode(id: string, visibility: Visibility, services: ApiServices) {
  const row = await joinedRow(services.db, id, visibility);
  if (!row) throw await notFoundProblem('node', id, visibility, services);
  return { row, node: nodeWire(row) };
}

/** Describes the running step of an operation, for `waiting_for`. */
function describeRunningStep(operation: Operation | undefined): string | null {
  if (operation?.status !== 'running') return null;
  const { label, message } = operation.progress;
  return `the step “${label}”${message && message !== label ? `: ${message}` : ''}`;
}

const toExplainedHolder = ({ retry_at, ...held_by }: Holder): ExplainedHolder => ({
  ...held_by,
  retry_at: retry_at === null ? null : new Date(retry_at),
});

async function readSlowStages(
  node: { node_id: string; node_instance_id: string | null; pool: string },
  visibility: Visibility,
  { db }: ApiServices,
) {
  if (!node.node_instance_id) return [];
  const stages = await readBootStages(db, node.node_id, node.node_instance_id, visibility);
  return stages.length === 0 ? [] : findSlowStages(stages, await readUsualStages(db, node.pool, node.node_instance_id));
}

/** In these statuses, a finding about slower boots of the pool concerns the node too. */
const bootStatuses: readonly NodeStatus[] = ['provisioning', 'starting', 'failed'];
const phases = ['provision', 'start'] as const;

/** A finding may name an earlier allocation of the node, so tenants see none. */
async function readFindings({ node_id, pool, status }: Node, visibility: Visibility, { db }: ApiServices) {
  if (visibility.kind !== 'fleet') return [];
  const bootSubjects = bootStatuses.includes(status) ? phases.map((phase) => bootSubject({ pool, phase })) : [];
  return (await readOpenFindings(db, node_id, bootSubjects)).map(findingWire);
}

function listOffers(subject: ActionSubject, caller: ActionCaller, repeated: RepeatedFailure | null) {
  const release_failed = subject.allocation_status === 'release_failed';
  return orderOffers(offeredActions(subject, caller), { repeated, release_failed });
}

/** Reads the holder, and the facts and boot stages that explain the node's status. */
async function readCauses(node: Node, visibility: Visibility, services: ApiServices) {
  const { db } = services;
  const holder = (node.allocation_id && (await readHolder(db, node.allocation_id, visibility))) || null;
  const stuckAllocationId = holder?.status === 'release_failed' ? holder.allocation_id : null;
  const [evidence, slow_stages] = await Promise.all([
    readCitedEvidence(db, node, visibility, stuckAllocationId),
    stuckAllocationId ? [] : readSlowStages(node, visibility, services),
  ]);
  return { holder, stuckAllocationId, evidence, slow_stages };
}

function findRefusedBeats(
  evidence: Evidence[],
  pool: string,
  { last_seen_at }: ExplainedNode,
  at: Date,
): RefusedBeats | null {
  for (const fact of evidence) {
    const refused = readRefusedBeats(fact, pool);
    if (refused) return isStillRefused(refused, last_seen_at, at) ? refused : null;
  }
  return null;
}

type ExplanationRoutes = 'node-explain' | 'node-actions' | 'node-act';

export const explanationHandlers: Pick<Handlers, ExplanationRoutes> = {
  async 'node-explain'({ params, person }, services) {
    const { db } = services;
    const { visibility } = person();
    const { row, node } = await mustFindNode(params.id, visibility, services);
    // The reads are independent and each may wait for a connection, so they run concurrently.
    const [pool, { holder, stuckAllocationId, evidence, slow_stages }, residue, operation, findings, subject, gaps] =
      await Promise.all([
        readGenerationDocument(db, row.pool, row.pool_generation),
        readCauses(node, visibility, services),
        // Residue may name another tenant's machine.
        visibility.kind === 'fleet' ? readOpenResidueIds(db, node.node_id) : [],
        // An operation on the node itself belongs to no tenant. The node's current tenant may still
        // see its progress.
        node.workflow_id === null ? undefined : readOperation(db, node.workflow_id, wholeFleet, now(services.clock)),
        readFindings(node, visibility, services),
        readNodeSubject(db, node, row.allocation_status),
        readNewestGaps(db, 1),
      ]);
    const change = evidence.find((fact) => fact.kind === `node.${node.status}`);
    const repeated = findRepeatedFailure(findings);
    const agentless = services.drivers.get(pool?.driver ?? '')?.supervision === 'agentless';
    const refused_beats = findRefusedBeats(evidence, node.pool, row, now(services.clock));
    const explanation = explain({
      node: row satisfies ExplainedNode,
      observe_only: pool?.mode === 'observe',
      agentless,
      reuse: pool !== undefined && reusesNodes(pool),
      holder: holder && toExplainedHolder(holder),
      residue,
      anew: operation?.kind === nodeReimageKind,
      gap_end: gaps[0]?.ended_at ?? null,
      operation: describeRunningStep(operation),
      repeated,
      refused_beats,
    });
    return {
      node_id: node.node_id,
      node_instance_id: node.node_instance_id,
      status: node.status,
      status_since: node.status_since,
      means: describeNodeStatus(node, {
        stuck: stuckAllocationId !== null,
        agentless,
        refused: refused_beats !== null,
      }),
      because: {
        rule: node.verdict?.rule ?? (change ? String(change.data.by) : null),
        verdict: node.verdict?.reason ?? (change ? String(change.data.reason) : null),
        owner: (stuckAllocationId ? holder?.owner_layer : node.verdict?.owner) ?? null,
        at: node.status_since,
        evidence,
      },
      waiting_for: explanation.waiting_for,
      deadline_at: node.deadline_at,
      budget_seconds: node.budget_seconds,
      budget_source: node.budget_source,
      held: node.held,
      would_have: node.would_have,
      // biome-ignore lint/suspicious/noThenProperty: a wire name; nothing awaits this object.
      next: explanation.next.map((step) => ({ if: step.if, then: step.leads_to, at: iso(step.at) })),
      progress: operation && operation.finished_at === null ? operation.progress : null,
      slow_stages,
      holder,
      residue,
      findings,
      actions: listOffers(subject, person(), repeated),
    };
  },
  async 'node-actions'({ params, person }, services) {
    const { row, node } = await mustFindNode(params.id, person().visibility, services);
    const [findings, subject] = await Promise.all([
      readFindings(node, person().visibility, services),
      readNodeSubject(services.db, node, row.allocation_status),
    ]);
    return { items: listOffers(subject, person(), findRepeatedFailure(findings)) };
  },
  async 'node-act'(call, services) {
    const { id, action } = call.params;
    const { reason } = call.body;
    const outcome = await actOnNode(services, id, action, call.body, callerOf(call, reason));
    return {
      node: (await mustFindNode(id, call.person().visibility, services)).node,
      operation: await readQueuedOperation(outcome, call.person(), services),
      dry_run: call.body.dry_run ?? false,
      ...(outcome.enrollment_token && { enrollment_token: outcome.enrollment_token }),
      predicts: predictionWire(outcome),
    };
  },
};
