/**
 * Simulates the durable operations: applies the changes of their steps in order and with their
 * guards. Skips the bookkeeping of steps, which would take most of the time. Requests and the
 * assignment of machines run the product's own code.
 */
import { now } from '../../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId } from '../../../../src/base/ids.ts';
import { assignNode } from '../../../../src/operations/provision/assign-node.ts';
import { requestRelease } from '../../../../src/operations/release/release-requests.ts';
import { requestAllocation, requestRetry } from '../../../../src/operations/requests.ts';
import { createInstance, fenceInstance } from '../../../../src/store/agents/instances.ts';
import { readOperationRow } from '../../../../src/store/operations/operations.ts';
import { lockNode } from '../../../../src/store/rows/nodes.ts';
import { currentPool, type PoolRow } from '../../../../src/store/rows/pools.ts';
import { createNode, transition } from '../../../../src/store/transitions/node-transition.ts';
import { joinSecret } from '../pools.ts';
import { machineName, type NodeView, type Turn } from '../views.ts';
import { joinPoolMachines, registerAgent, reportReady } from './agents.ts';
import { allowRefusal, type CommandContext, mustHave, splitIntoChunks } from './command-context.ts';
import { caller, replaceInstances, servicesOf } from './operators.ts';
import { endOperation, isReleasable, nodeOf, pickWhere, prove } from './releases.ts';

const batchSize = 100;

/** Creates nodes whose machine an operator expects, and agentless nodes of a provider. */
export async function createNodes({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const { clock, environment, installation } = fixture;
  const pools = new Map<string, PoolRow>();
  for (const { sequence } of turns)
    if (!pools.has(sequence.pool)) pools.set(sequence.pool, mustHave(await currentPool(fixture.db, sequence.pool)));
  for (const chunk of splitIntoChunks(turns, batchSize))
    await fixture.db.transaction(async (tx) => {
      for (const { sequence, draws, log } of chunk) {
        const { pool, index, life, digit } = sequence;
        const ids = { node_id: newNodeId(clock), node_instance_id: newNodeInstanceId(clock) };
        const { generation, document } = mustHave(pools.get(pool));
        const newNode = {
          ...ids,
          pool,
          pool_generation: generation,
          name: machineName(index),
          zone: document.zone ?? null,
          workflow_id: null,
          correlation_id: newCorrelationId(),
          requested_provision_seconds: draws.variant < 0.2 ? 30 : null,
          labels: { digit },
        };
        const by = life === 'agentless' ? ('node-provision' as const) : ('node-create' as const);
        const cause = { by, reason: 'for a test', allocation_id: null };
        await createNode(tx, newNode, document, cause, now(clock), environment);
        const enrollment_token = installation.signEnrollmentToken({ pool, ...ids });
        await createInstance(tx, { ...ids, enrollment_token }, now(clock));
        log(`created as ${ids.node_instance_id} in ${pool}`);
      }
    });
}

async function assign(context: CommandContext, turn: Turn): Promise<string> {
  const { fixture } = context;
  const moment = now(fixture.clock);
  const allocation = pickWhere(turn.allocations, turn.draws.subject, ({ provision }) => provision !== null);
  return allowRefusal(() =>
    fixture.db.transaction(async (tx) => {
      const operation = mustHave(await readOperationRow(tx, allocation.provision ?? '', 'for update'));
      if (operation.status !== 'queued') return 'assign: the operation was cancelled';
      const failedNode = nodeOf(turn, allocation);
      // A retry first tears down the failed instance and proves it gone.
      if (operation.params.retry && failedNode?.status === 'failed' && turn.sequence.life === 'launch-pool') {
        // Lock the node before its instance. The rule that ends the rescue window locks in this
        // order too; another order could deadlock with it.
        const lockedNode = await lockNode(tx, failedNode.node_id);
        // Check again under the lock: the node may have been rescued meanwhile.
        if (lockedNode?.status === 'failed') {
          const fence = { reason: 'retry requested', revoke: true };
          await fenceInstance(tx, failedNode.node_instance_id, fence, moment);
          await prove(tx, moment, 'absent', [failedNode]);
        }
      }
      const result = await assignNode(tx, servicesOf(context), operation, moment);
      if (result.assigned || 'withdrawn' in result)
        await endOperation(tx, operation.workflow_id, result.assigned ? 'succeeded' : 'failed', moment);
      return `assign: ${JSON.stringify(result)}`;
    }),
  );
}

/**
 * Lets two machines join and become ready, and assigns one to a tenant. Sequences that start here
 * reach the second tenant of a machine sooner.
 */
async function moveIn(context: CommandContext, turn: Turn): Promise<string> {
  const { fixture } = context;
  const { pool, digit } = turn.sequence;
  for (const name of joinPoolMachines) {
    await registerAgent(context, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
    const [node] = await fixture.db.query<NodeView>('select * from nodes where pool = $1 and name = $2', [pool, name]);
    await reportReady(context, mustHave(node));
  }
  const services = servicesOf(context);
  const { workflow_id } = await requestAllocation(services, { pool }, caller());
  return fixture.db.transaction(async (tx) => {
    const operation = mustHave(await readOperationRow(tx, workflow_id, 'for update'));
    const result = await assignNode(tx, services, operation, now(fixture.clock));
    await endOperation(tx, workflow_id, 'succeeded', now(fixture.clock));
    return `two machines joined and are ready; one is assigned: ${JSON.stringify(result)}`;
  });
}

export const requests = {
  'move-in': moveIn,
  request: (context: CommandContext, { sequence, draws }: Turn) =>
    allowRefusal(async () => {
      const request = { pool: sequence.pool, ...(draws.variant < 0.2 && { provision_timeout_seconds: 30 }) };
      return `requested ${(await requestAllocation(servicesOf(context), request, caller())).allocation_id}`;
    }),
  assign,
  release: (context: CommandContext, turn: Turn) =>
    allowRefusal(async () => {
      const { allocation_id } = pickWhere(turn.allocations, turn.draws.subject, isReleasable);
      await requestRelease(servicesOf(context), allocation_id, caller());
      return `requested the release of ${allocation_id}`;
    }),
  retry: (context: CommandContext, turn: Turn) =>
    allowRefusal(async () => {
      const { allocation_id } = pickWhere(
        turn.allocations,
        turn.draws.subject,
        ({ status, provision }) => status === 'failed' && provision === null,
      );
      await requestRetry(servicesOf(context), allocation_id, caller());
      return `requested a retry of ${allocation_id}`;
    }),
};

/**
 * Ends the teardown of a node without an allocation: proves it gone, then retires or reimages it.
 */
export async function proveGone(context: CommandContext, turns: Turn[]): Promise<void> {
  const { fixture } = context;
  const moment = now(fixture.clock);
  for (const chunk of splitIntoChunks(turns, batchSize))
    await fixture.db.transaction(async (tx) => {
      await prove(
        tx,
        moment,
        'absent',
        chunk.map(({ node }) => mustHave(node)),
      );
      const reimagedTurns = chunk.filter(({ draws }) => draws.variant < 0.35);
      const retiredTurns = chunk.filter(({ draws }) => draws.variant >= 0.35);
      await replaceInstances(context, tx, reimagedTurns, 'proof');
      const outcomes = await transition(
        tx,
        retiredTurns.map(({ node }) => ({
          node_id: mustHave(node).node_id,
          to: 'retired',
          by: 'proof',
          reason: 'proven gone',
        })),
        moment,
        fixture.environment,
      );
      for (const [index, turn] of retiredTurns.entries())
        turn.log(`proven gone: ${outcomes[index]?.moved ? 'retired' : 'refused'}`);
    });
}
