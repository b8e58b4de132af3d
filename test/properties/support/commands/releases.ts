/** Simulates releases: fence, prove and free, or give up, with the guards of the real operation. */
import { now } from '../../../../src/base/clock.ts';
import { fenceInstance } from '../../../../src/store/agents/instances.ts';
import { recordEvidence } from '../../../../src/store/evidence/evidence.ts';
import type { Transaction } from '../../../../src/store/pg/database.ts';
import { moveAllocations } from '../../../../src/store/transitions/allocation-transition.ts';
import { transition } from '../../../../src/store/transitions/node-transition.ts';
import { requireMoved } from '../../../../src/store/transitions/transition-rules.ts';
import { ownDocument } from '../pools.ts';
import { at } from '../random.ts';
import type { AllocationView, NodeView, Turn } from '../views.ts';
import { type CommandContext, chunked, mustHave } from './command-context.ts';

const batchSize = 100;
const proof = { by: 'proof', reason: 'proven' } as const;

export const found = <T>(list: readonly T[], draw: number, fits: (item: T) => boolean): T =>
  at(list.filter(fits), draw);

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
/** An operator may have quarantined the node after the release fenced it. */
const endable = ['cleaning', 'quarantined'];
export const mayFinish = (turn: Turn, allocation: AllocationView) =>
  allocation.status === 'releasing' &&
  (!hasMachine(turn, allocation) || endable.includes(nodeOf(turn, allocation)?.status ?? ''));

export const endOperation = (tx: Transaction, workflow_id: string | null, status: string, moment: Date) =>
  tx.query(`update operations set status = $2, finished_at = $3 where workflow_id = $1`, [workflow_id, status, moment]);

export const prove = (tx: Transaction, moment: Date, kind: 'clean' | 'absent' | 'revoked', nodes: NodeView[]) =>
  recordEvidence(
    tx,
    nodes.map(({ node_id, node_instance_id }) => ({
      at: moment,
      layer: 'provider',
      kind: `proof.${kind}`,
      summary: 'nothing is left',
      data: { kind },
      node_id,
      node_instance_id,
    })),
  );

export const mayForce = (turn: Turn, allocation: AllocationView) =>
  (allocation.status === 'releasing' || allocation.status === 'release_failed') &&
  nodeOf(turn, allocation)?.status === 'cleaning';

/** Moves the node to cleaning; fences an instance that never registered. */
export async function fence({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const moment = now(fixture.clock);
  for (const chunk of chunked(turns, batchSize))
    await fixture.db.transaction(async (tx) => {
      const nodes = chunk.map((turn) =>
        mustHave(
          nodeOf(
            turn,
            found(turn.allocations, turn.draws.who, (each) => needsFence(turn, each)),
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
      for (const [at, turn] of chunk.entries()) {
        const outcome = outcomes[at];
        turn.log(`the release fences its machine: ${outcome?.moved ? 'cleaning' : outcome?.because}`);
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

/** Proves and frees the node, or fails and is retried later. */
export async function finish({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const { environment } = fixture;
  const moment = now(fixture.clock);
  for (const chunk of chunked(turns, batchSize)) {
    const ends = chunk.map((turn) => {
      const allocation = found(turn.allocations, turn.draws.who, (each) => mayFinish(turn, each));
      const node = hasMachine(turn, allocation) ? nodeOf(turn, allocation) : undefined;
      const reuse = ownDocument(turn.sequence).reuse ?? false;
      // Only its agent can prove a reused machine clean. Without an agent a launched machine is
      // torn down; one that joined cannot be.
      const canProve = node?.registered === true && !node.fenced;
      const hopeless = node !== undefined && !canProve && turn.sequence.life === 'brought';
      return { turn, allocation, node, reuse: reuse && canProve, failed: hopeless || turn.draws.how > 0.75 };
    });
    const proven = ends.filter(({ failed }) => !failed).flatMap(({ node, reuse }) => (node ? [{ node, reuse }] : []));
    const outcomes = await fixture.db.transaction(async (tx) => {
      await prove(
        tx,
        moment,
        'clean',
        proven.filter(({ reuse }) => reuse).map(({ node }) => node),
      );
      await prove(
        tx,
        moment,
        'absent',
        proven.filter(({ reuse }) => !reuse).map(({ node }) => node),
      );
      for (const { node, reuse } of proven)
        if (!reuse)
          await fenceInstance(tx, node.node_instance_id, { reason: 'the machine was released', revoke: true }, moment);
      // A clean node in quarantine stays there.
      const staying = proven.filter(({ node, reuse }) => reuse && node.status === 'cleaning');
      const clean = staying.map(({ node: { node_id } }) => ({ ...proof, node_id, to: 'ready' as const }));
      await transition(tx, clean, moment, environment);
      const leaving = proven.filter(({ reuse }) => !reuse);
      const gone = leaving.map(({ node: { node_id } }) => ({ ...proof, node_id, to: 'retired' as const }));
      requireMoved(await transition(tx, gone, moment, environment), 'already_there');
      for (const { allocation, failed } of ends)
        await endOperation(tx, allocation.workflow_id, failed ? 'failed' : 'succeeded', moment);
      return moveAllocations(
        tx,
        ends.map(({ allocation: { allocation_id }, failed }) => ({
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
    for (const [at, { turn, allocation }] of ends.entries()) {
      const outcome = outcomes[at];
      turn.log(
        `the release of ${allocation.allocation_id} ends: ${outcome?.moved ? outcome.allocation.status : outcome?.because}`,
      );
    }
  }
}

/** Without proof: the allocation ends and its node is quarantined. */
export async function forceRelease({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const { environment } = fixture;
  const moment = now(fixture.clock);
  const cited = { by: 'force-release' as const, reason: 'no proof is possible' };
  for (const turn of turns)
    await fixture.db.transaction(async (tx) => {
      const allocation = found(turn.allocations, turn.draws.who, (each) => mayForce(turn, each));
      const node = nodeOf(turn, allocation);
      if (node) await transition(tx, [{ ...cited, node_id: node.node_id, to: 'quarantined' }], moment, environment);
      const move = { ...cited, allocation_id: allocation.allocation_id, to: 'released' as const };
      const [outcome] = await moveAllocations(tx, [move], moment, environment);
      turn.log(`force-release of ${allocation.allocation_id}: ${outcome?.moved ? 'released' : outcome?.because}`);
    });
}
