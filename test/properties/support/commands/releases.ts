/**
 * Simulates releases: fences the node, then proves and frees it or gives up, with the guards of the
 * real operation.
 */
import { now } from '../../../../src/base/clock.ts';
import { fenceInstance } from '../../../../src/store/agents/instances.ts';
import { recordEvidence } from '../../../../src/store/evidence/evidence.ts';
import type { Transaction } from '../../../../src/store/pg/database.ts';
import { moveAllocations } from '../../../../src/store/transitions/allocation-transition.ts';
import { transition } from '../../../../src/store/transitions/node-transition.ts';
import { requireMoved } from '../../../../src/store/transitions/transition-rules.ts';
import { privatePoolDocument } from '../pools.ts';
import { pickAt } from '../random.ts';
import type { AllocationView, NodeView, Turn } from '../views.ts';
import { type CommandContext, mustHave, splitIntoChunks } from './command-context.ts';

const batchSize = 100;
const byProof = { by: 'proof', reason: 'proven' } as const;

export const pickWhere = <T>(items: readonly T[], draw: number, fits: (item: T) => boolean): T =>
  pickAt(items.filter(fits), draw);

export const isReleasable = ({ status }: AllocationView) => status !== 'releasing' && status !== 'released';
export const nodeOf = (turn: Turn, { node_id }: AllocationView): NodeView | undefined =>
  turn.nodes.find((node) => node.node_id === node_id);
const isHeldByAnother = (turn: Turn, { allocation_id, node_id }: AllocationView) =>
  turn.allocations.some(
    (other) =>
      other.allocation_id !== allocation_id &&
      other.node_id === node_id &&
      ['provisioning', 'active', 'releasing', 'release_failed'].includes(other.status),
  );
const hasMachine = (turn: Turn, allocation: AllocationView) => {
  const node = nodeOf(turn, allocation);
  return node !== undefined && node.status !== 'retired' && !isHeldByAnother(turn, allocation);
};
export const needsFence = (turn: Turn, allocation: AllocationView) =>
  allocation.status === 'releasing' && hasMachine(turn, allocation) && nodeOf(turn, allocation)?.status !== 'cleaning';
/** Includes quarantined, because an operator may have quarantined the node after the fencing. */
const statusesBeforeFinish = ['cleaning', 'quarantined'];
export const mayFinish = (turn: Turn, allocation: AllocationView) =>
  allocation.status === 'releasing' &&
  (!hasMachine(turn, allocation) || statusesBeforeFinish.includes(nodeOf(turn, allocation)?.status ?? ''));

export const endOperation = (tx: Transaction, workflow_id: string | null, status: string, moment: Date) =>
  tx.query(`update operations set status = $2, finished_at = $3 where workflow_id = $1`, [workflow_id, status, moment]);

export const prove = (tx: Transaction, moment: Date, kind: 'clean' | 'absent' | 'revoked', nodes: NodeView[]) =>
  recordEvidence(
    tx,
    nodes.map(({ node_id, node_instance_id }) => ({
      at: moment,
      layer: 'provider',
      kind: `proof.${kind}`,
      summary: 'no resource is left',
      data: { kind },
      node_id,
      node_instance_id,
    })),
  );

export const mayForce = (turn: Turn, allocation: AllocationView) =>
  (allocation.status === 'releasing' || allocation.status === 'release_failed') &&
  nodeOf(turn, allocation)?.status === 'cleaning';

/** Moves the node to cleaning, and fences its instance if the instance never registered. */
export async function fence({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const moment = now(fixture.clock);
  for (const chunk of splitIntoChunks(turns, batchSize))
    await fixture.db.transaction(async (tx) => {
      const nodes = chunk.map((turn) =>
        mustHave(
          nodeOf(
            turn,
            pickWhere(turn.allocations, turn.draws.subject, (allocation) => needsFence(turn, allocation)),
          ),
        ),
      );
      const outcomes = await transition(
        tx,
        nodes.map(({ node_id }) => ({
          node_id,
          to: 'cleaning',
          by: 'release',
          reason: 'its allocation is being released',
        })),
        moment,
        fixture.environment,
      );
      for (const [index, turn] of chunk.entries()) {
        const outcome = outcomes[index];
        turn.log(`the release fences the machine: ${outcome?.moved ? 'cleaning' : outcome?.because}`);
        if (outcome?.moved && outcome.node.node_instance_id && !outcome.node.registered_at)
          await fenceInstance(
            tx,
            outcome.node.node_instance_id,
            { reason: 'released before it registered', revoke: false },
            moment,
          );
      }
    });
}

/**
 * Proves the node clean or gone and ends the release, or lets the release fail; a rule retries it.
 */
export async function finish({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const { environment } = fixture;
  const moment = now(fixture.clock);
  for (const chunk of splitIntoChunks(turns, batchSize)) {
    const releases = chunk.map((turn) => {
      const allocation = pickWhere(turn.allocations, turn.draws.subject, (item) => mayFinish(turn, item));
      const node = hasMachine(turn, allocation) ? nodeOf(turn, allocation) : undefined;
      const reuse = privatePoolDocument(turn.sequence).reuse ?? false;
      // Only the agent can prove a machine clean for reuse. Without an agent, a launched machine is
      // torn down, but a machine that joined cannot be torn down.
      const canProve = node?.registered === true && !node.fenced;
      const cannotEnd = node !== undefined && !canProve && turn.sequence.life === 'join-pool';
      return { turn, allocation, node, reuse: reuse && canProve, failed: cannotEnd || turn.draws.variant > 0.75 };
    });
    const provenReleases = releases
      .filter(({ failed }) => !failed)
      .flatMap(({ node, reuse }) => (node ? [{ node, reuse }] : []));
    const outcomes = await fixture.db.transaction(async (tx) => {
      await prove(
        tx,
        moment,
        'clean',
        provenReleases.filter(({ reuse }) => reuse).map(({ node }) => node),
      );
      await prove(
        tx,
        moment,
        'absent',
        provenReleases.filter(({ reuse }) => !reuse).map(({ node }) => node),
      );
      for (const { node, reuse } of provenReleases)
        if (!reuse)
          await fenceInstance(tx, node.node_instance_id, { reason: 'the machine was released', revoke: true }, moment);
      // A node that is clean but quarantined stays quarantined.
      const reusable = provenReleases.filter(({ node, reuse }) => reuse && node.status === 'cleaning');
      const readyMoves = reusable.map(({ node: { node_id } }) => ({ ...byProof, node_id, to: 'ready' as const }));
      await transition(tx, readyMoves, moment, environment);
      const goneNodes = provenReleases.filter(({ reuse }) => !reuse);
      const retireMoves = goneNodes.map(({ node: { node_id } }) => ({ ...byProof, node_id, to: 'retired' as const }));
      requireMoved(await transition(tx, retireMoves, moment, environment), 'already_there');
      for (const { allocation, failed } of releases)
        await endOperation(tx, allocation.workflow_id, failed ? 'failed' : 'succeeded', moment);
      return moveAllocations(
        tx,
        releases.map(({ allocation: { allocation_id }, failed }) => ({
          allocation_id,
          from: ['releasing'],
          ...(failed
            ? { to: 'release_failed', by: 'release-deadline', reason: 'step clean failed' }
            : { to: 'released', by: 'proof', reason: 'its machine is proven clean or gone' }),
        })),
        moment,
        environment,
      );
    });
    for (const [index, { turn, allocation }] of releases.entries()) {
      const outcome = outcomes[index];
      turn.log(
        `the release of ${allocation.allocation_id} ends: ${outcome?.moved ? outcome.allocation.status : outcome?.because}`,
      );
    }
  }
}

/** Ends the allocation without a proof and quarantines its node. */
export async function forceRelease({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const { environment } = fixture;
  const moment = now(fixture.clock);
  const cause = { by: 'force-release' as const, reason: 'no proof is possible' };
  for (const turn of turns)
    await fixture.db.transaction(async (tx) => {
      const allocation = pickWhere(turn.allocations, turn.draws.subject, (item) => mayForce(turn, item));
      const node = nodeOf(turn, allocation);
      if (node) await transition(tx, [{ ...cause, node_id: node.node_id, to: 'quarantined' }], moment, environment);
      const move = { ...cause, allocation_id: allocation.allocation_id, to: 'released' as const };
      const [outcome] = await moveAllocations(tx, [move], moment, environment);
      turn.log(`force-release of ${allocation.allocation_id}: ${outcome?.moved ? 'released' : outcome?.because}`);
    });
}
