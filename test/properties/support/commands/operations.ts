/**
 * The durable operations, played: the changes that their steps make, in their order and with their guards, without the steps'
 * own bookkeeping, which would take most of the time. What is asked for, and who gets which machine, is the product's own code.
 */
import { now } from '../../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId } from '../../../../src/base/ids.ts';
import { assignNode } from '../../../../src/operations/provision/assign-node.ts';
import { requestRelease } from '../../../../src/operations/release/release-requests.ts';
import { requestAllocation, requestRetry } from '../../../../src/operations/requests.ts';
import { createInstance, fenceInstance } from '../../../../src/store/agents/instances.ts';
import { operationRow } from '../../../../src/store/operations/operations.ts';
import { lockNode } from '../../../../src/store/rows/nodes.ts';
import { currentPool, type PoolRow } from '../../../../src/store/rows/pools.ts';
import { createNode, transition } from '../../../../src/store/transitions/node-transition.ts';
import { joinSecret } from '../pools.ts';
import { machineName, type NodeView, type Turn } from '../views.ts';
import { broughtNames, claimReady, knock } from './agents.ts';
import { caller, replaceInstances, servicesOf } from './operators.ts';
import { endOperation, found, isReleasable, nodeOf, prove } from './releases.ts';
import { chunked, mustHave, refusable, type Stage } from './stage.ts';

const together = 100;

/** Machines that an operator expects, or that the provider is asked for. */
export async function appear({ world }: Stage, turns: Turn[]): Promise<void> {
  const { clock, environment, installation } = world;
  const pools = new Map<string, PoolRow>();
  for (const { sequence } of turns)
    if (!pools.has(sequence.pool)) pools.set(sequence.pool, mustHave(await currentPool(world.db, sequence.pool)));
  for (const chunk of chunked(turns, together))
    await world.db.transaction(async (tx) => {
      for (const { sequence, throws, tell } of chunk) {
        const { pool, index, life, digit } = sequence;
        const ids = { node_id: newNodeId(clock), node_instance_id: newNodeInstanceId(clock) };
        const { generation, document } = mustHave(pools.get(pool));
        const fresh = {
          ...ids,
          pool,
          pool_generation: generation,
          name: machineName(index),
          zone: document.zone ?? null,
          workflow_id: null,
          correlation_id: newCorrelationId(),
          requested_provision_seconds: throws.how < 0.2 ? 30 : null,
          labels: { digit },
        };
        const by = life === 'agentless' ? ('node-provision' as const) : ('node-create' as const);
        const cited = { by, reason: 'it is expected', allocation_id: null };
        await createNode(tx, fresh, document, cited, now(clock), environment);
        const enrollment_token = installation.enrollmentToken({ pool, ...ids });
        await createInstance(tx, { ...ids, enrollment_token }, now(clock));
        tell(`appears as ${ids.node_instance_id} in ${pool}`);
      }
    });
}

async function assign(stage: Stage, turn: Turn): Promise<string> {
  const { world } = stage;
  const moment = now(world.clock);
  const allocation = found(turn.allocations, turn.throws.who, ({ provision }) => provision !== null);
  return refusable(() =>
    world.db.transaction(async (tx) => {
      const operation = mustHave(await operationRow(tx, allocation.provision ?? '', 'for update'));
      if (operation.status !== 'queued') return 'assign: its operation was cancelled';
      const former = nodeOf(turn, allocation);
      // Another try: what is left of the failed instance goes first, with proof.
      if (operation.params.retry && former?.status === 'failed' && turn.sequence.life === 'launched') {
        // The node before its instance, or this and the rule that ends its window would wait for each other.
        const locked = await lockNode(tx, former.node_id);
        // Looked at again under its lock: one that was rescued this very moment is nobody's to take down.
        if (locked?.status === 'failed') {
          const fence = { reason: 'another try was asked for', revoke: true };
          await fenceInstance(tx, former.node_instance_id, fence, moment);
          await prove(tx, moment, 'absent', [former]);
        }
      }
      const answer = await assignNode(tx, servicesOf(stage), operation, moment);
      if (answer.assigned || 'withdrawn' in answer)
        await endOperation(tx, operation.workflow_id, answer.assigned ? 'succeeded' : 'failed', moment);
      return `assign: ${JSON.stringify(answer)}`;
    }),
  );
}

/** Two machines join and are ready, and a tenant gets one of them: where the story of a machine's second tenant begins. */
async function moveIn(stage: Stage, turn: Turn): Promise<string> {
  const { world } = stage;
  const { pool, digit } = turn.sequence;
  for (const name of broughtNames) {
    await knock(stage, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
    const [node] = await world.db.query<NodeView>('select * from nodes where pool = $1 and name = $2', [pool, name]);
    await claimReady(stage, mustHave(node));
  }
  const services = servicesOf(stage);
  const { workflow_id } = await requestAllocation(services, { pool }, caller());
  return world.db.transaction(async (tx) => {
    const operation = mustHave(await operationRow(tx, workflow_id, 'for update'));
    const answer = await assignNode(tx, services, operation, now(world.clock));
    await endOperation(tx, workflow_id, 'succeeded', now(world.clock));
    return `two machines join and are ready, and a tenant moves in: ${JSON.stringify(answer)}`;
  });
}

export const requests = {
  'move-in': moveIn,
  ask: (stage: Stage, { sequence, throws }: Turn) =>
    refusable(async () => {
      const asked = { pool: sequence.pool, ...(throws.how < 0.2 && { provision_timeout_seconds: 30 }) };
      return `asks for ${(await requestAllocation(servicesOf(stage), asked, caller())).allocation_id}`;
    }),
  assign,
  release: (stage: Stage, turn: Turn) =>
    refusable(async () => {
      const { allocation_id } = found(turn.allocations, turn.throws.who, isReleasable);
      await requestRelease(servicesOf(stage), allocation_id, caller());
      return `asks to release ${allocation_id}`;
    }),
  retry: (stage: Stage, turn: Turn) =>
    refusable(async () => {
      const { allocation_id } = found(
        turn.allocations,
        turn.throws.who,
        ({ status, provision }) => status === 'failed' && provision === null,
      );
      await requestRetry(servicesOf(stage), allocation_id, caller());
      return `asks to try ${allocation_id} again`;
    }),
};

/** What takes a machine down without an allocation that asks for it: proof, and then it is retired or imaged anew. */
export async function proveGone(stage: Stage, turns: Turn[]): Promise<void> {
  const { world } = stage;
  const moment = now(world.clock);
  for (const chunk of chunked(turns, together))
    await world.db.transaction(async (tx) => {
      await prove(
        tx,
        moment,
        'absent',
        chunk.map(({ node }) => mustHave(node)),
      );
      const anew = chunk.filter(({ throws }) => throws.how < 0.35);
      const gone = chunk.filter(({ throws }) => throws.how >= 0.35);
      await replaceInstances(stage, tx, anew, 'proof');
      const outcomes = await transition(
        tx,
        gone.map(({ node }) => ({
          node_id: mustHave(node).node_id,
          to: 'retired',
          by: 'proof',
          reason: 'proven gone',
        })),
        moment,
        world.environment,
      );
      for (const [at, turn] of gone.entries()) turn.tell(`proven gone: ${outcomes[at]?.moved ? 'retired' : 'refused'}`);
    });
}
