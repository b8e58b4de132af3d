/**
 * Finds quarantined nodes whose machine is proven gone, and retires them by that proof in the
 * second pass. The pool's drift policy does not apply: the provider agrees that the machine is
 * gone, and only our own last step is missing.
 */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { retireProvenGone } from '../../operations/release/proven-gone.ts';
import {
  findProvenGoneNodes,
  isSeenSince,
  listQuarantinedAfter,
  type ProvenGoneNode,
} from '../../store/history/proven-gone-nodes.ts';
import {
  type Disagreement,
  endFindings,
  noteDisagreements,
  settleFinding,
  standingFindings,
} from '../../store/rows/findings.ts';
import type { SweepServices } from '../runner/services.ts';

const slice = 500;

const disagreementOf = (node: ProvenGoneNode): Disagreement => ({
  what: 'proven_gone',
  subject: node.node_id,
  pool: node.pool,
  node_id: node.node_id,
  node_instance_id: node.node_instance_id,
  allocation_id: node.allocation_id,
  ours: { status: node.status, status_since: node.status_since, node_instance_id: node.node_instance_id },
  theirs: {
    proof: node.proof,
    proven_at: node.proven_at,
    ...(isSeenSince(node) && { observed_state: node.observed_state, observed_at: node.observed_at }),
  },
});

export function createProofComparison(services: SweepServices): (now: Date) => Promise<void> {
  const { db, clock, environment } = services;
  let cursor = '';
  return async (now) => {
    // Passes of several replicas within half an interval count as one.
    const passStart = secondsLater(now, -environment.drift.every_seconds / 2);
    const quarantined = await listQuarantinedAfter(db, cursor, slice);
    cursor = quarantined.length === slice ? (quarantined.at(-1) ?? '') : '';
    const standing = await standingFindings(db, ['proven_gone']);
    const goneNodes = await findProvenGoneNodes(db, [
      ...new Set([...quarantined, ...standing.map(({ subject }) => subject)]),
    ]);
    const goneById = new Map(goneNodes.map((node) => [node.node_id as string, node]));
    const outdated = standing.filter(({ subject }) => !goneById.has(subject));
    if (goneNodes.length === 0 && outdated.length === 0) return;
    await db.transaction(async (tx) => {
      const disagreements = goneNodes.map((node) => ({ finding_id: newFindingId(clock), ...disagreementOf(node) }));
      const opened = await noteDisagreements(tx, disagreements, passStart, now, environment.decide.isConfirmed);
      // Include earlier findings: a machine that the provider still showed then may be gone now.
      const open = [...opened, ...standing.filter(({ status }) => status === 'open')];
      for (const { finding_id, subject } of open) {
        const node = goneById.get(subject);
        // The provider has shown the machine after the proof, so a person or an operation decides.
        if (!node || isSeenSince(node)) continue;
        const reason = 'its machine was proven gone before';
        if (await retireProvenGone(tx, services, { ...node, reason, workflow_id: null }, now))
          await settleFinding(
            tx,
            finding_id,
            { status: 'repaired', reason: 'by the proof on record', actor: null },
            now,
          );
      }
      await endFindings(tx, outdated, 'the node has moved on', now);
    });
  };
}
