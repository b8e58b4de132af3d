/**
 * Simulates the durable operations: the changes of their steps, in order and with their guards, but
 * without the bookkeeping of steps, which would take most of the time. Requests and the assignment
 * of machines are the product's own code.
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
import { broughtNames, registerAgent, reportReady } from './agents.ts';
import { allowRefusal, type CommandContext, chunked, mustHave } from './command-context.ts';
import { caller, replaceInstances, servicesOf } from './operators.ts';
import { endOperation, found, isReleasable, nodeOf, prove } from './releases.ts';

const batchSize = 100;

/** Creates nodes that an operator expects, or that a provider makes. */
export async function appear({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const { clock, environment, installation } = fixture;
  const pools = new Map<string, PoolRow>();
  for (const { sequence } of turns)
    if (!pools.has(sequence.pool)) pools.set(sequence.pool, mustHave(await currentPool(fixture.db, sequence.pool)));
  for (const chunk of chunked(turns, batchSize))
    await fixture.db.transaction(async (tx) => {
      for (const { sequence, draws, log } of chunk) {
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
          requested_provision_seconds: draws.how < 0.2 ? 30 : null,
          labels: { digit },
        };
        const by = life === 'agentless' ? ('node-provision' as const) : ('node-create' as const);
        const cited = { by, reason: 'it is expected', allocation_id: null };
        await createNode(tx, fresh, document, cited, now(clock), environment);
        const enrollment_token = installation.enrollmentToken({ pool, ...ids });
        await createInstance(tx, { ...ids, enrollment_token }, now(clock));
        log(`appears as ${ids.node_instance_id} in ${pool}`);
      }
    });
}

async function assign(context: CommandContext, turn: Turn): Promise<string> {
  const { fixture } = context;
  const moment = now(fixture.clock);
  const allocation = found(turn.allocations, turn.draws.who, ({ provision }) => provision !== null);
  return allowRefusal(() =>
    fixture.db.transaction(async (tx) => {
      const operation = mustHave(await operationRow(tx, allocation.provision ?? '', 'for update'));
      if (operation.status !== 'queued') return 'assign: its operation was cancelled';
      const former = nodeOf(turn, allocation);
      // A retry first takes down the failed instance, with proof.
      if (operation.params.retry && former?.status === 'failed' && turn.sequence.life === 'launched') {
        // Lock the node before its instance, as the rule that ends the rescue window does, or they
        // deadlock.
        const locked = await lockNode(tx, former.node_id);
        // Check again under the lock: the node may have been rescued meanwhile.
        if (locked?.status === 'failed') {
          const fence = { reason: 'another try was asked for', revoke: true };
          await fenceInstance(tx, former.node_instance_id, fence, moment);
          await prove(tx, moment, 'absent', [former]);
        }
      }
      const answer = await assignNode(tx, servicesOf(context), operation, moment);
      if (answer.assigned || 'withdrawn' in answer)
        await endOperation(tx, operation.workflow_id, answer.assigned ? 'succeeded' : 'failed', moment);
      return `assign: ${JSON.stringify(answer)}`;
    }),
  );
}

/**
 * Two machines join and become ready, and a tenant gets one: the start for tests of a second
 * tenant.
 */
async function moveIn(context: CommandContext, turn: Turn): Promise<string> {
  const { fixture } = context;
  const { pool, digit } = turn.sequence;
  for (const name of broughtNames) {
    await registerAgent(context, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
    const [node] = await fixture.db.query<NodeView>('select * from nodes where pool = $1 and name = $2', [pool, name]);
    await reportReady(context, mustHave(node));
  }
  const services = servicesOf(context);
  const { workflow_id } = await requestAllocation(services, { pool }, caller());
  return fixture.db.transaction(async (tx) => {
    const operation = mustHave(await operationRow(tx, workflow_id, 'for update'));
    const answer = await assignNode(tx, services, operation, now(fixture.clock));
    await endOperation(tx, workflow_id, 'succeeded', now(fixture.clock));
    return `two machines join and are ready, and a tenant moves in: ${JSON.stringify(answer)}`;
  });
}

export const requests = {
  'move-in': moveIn,
  request: (context: CommandContext, { sequence, draws }: Turn) =>
    allowRefusal(async () => {
      const request = { pool: sequence.pool, ...(draws.how < 0.2 && { provision_timeout_seconds: 30 }) };
      return `requests ${(await requestAllocation(servicesOf(context), request, caller())).allocation_id}`;
    }),
  assign,
  release: (context: CommandContext, turn: Turn) =>
    allowRefusal(async () => {
      const { allocation_id } = found(turn.allocations, turn.draws.who, isReleasable);
      await requestRelease(servicesOf(context), allocation_id, caller());
      return `asks to release ${allocation_id}`;
    }),
  retry: (context: CommandContext, turn: Turn) =>
    allowRefusal(async () => {
      const { allocation_id } = found(
        turn.allocations,
        turn.draws.who,
        ({ status, provision }) => status === 'failed' && provision === null,
      );
      await requestRetry(servicesOf(context), allocation_id, caller());
      return `asks to try ${allocation_id} again`;
    }),
};

/** Ends a teardown without an allocation: a proof, then the node is retired or imaged again. */
export async function proveGone(context: CommandContext, turns: Turn[]): Promise<void> {
  const { fixture } = context;
  const moment = now(fixture.clock);
  for (const chunk of chunked(turns, batchSize))
    await fixture.db.transaction(async (tx) => {
      await prove(
        tx,
        moment,
        'absent',
        chunk.map(({ node }) => mustHave(node)),
      );
      const renewed = chunk.filter(({ draws }) => draws.how < 0.35);
      const gone = chunk.filter(({ draws }) => draws.how >= 0.35);
      await replaceInstances(context, tx, renewed, 'proof');
      const outcomes = await transition(
        tx,
        gone.map(({ node }) => ({
          node_id: mustHave(node).node_id,
          to: 'retired',
          by: 'proof',
          reason: 'proven gone',
        })),
        moment,
        fixture.environment,
      );
      for (const [at, turn] of gone.entries()) turn.log(`proven gone: ${outcomes[at]?.moved ? 'retired' : 'refused'}`);
    });
}
