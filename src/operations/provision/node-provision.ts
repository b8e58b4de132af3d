/**
 * Brings a machine up for an allocation: assigns a free or new machine, launches it, and waits
 * until it is ready.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, unwrapSettled } from '../../base/batching/bisect.ts';
import { now, secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import {
  type Json,
  OperationCancelled,
  type OperationContext,
  type OperationDefinition,
  StepFailed,
} from '../../engine/engine.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { lockAsExecutor, lockManyAsExecutor, runOnce } from '../../store/operations/executions.ts';
import { completeStage, enterStage } from '../../store/operations/steps.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import { allocationRow } from '../../store/rows/allocations.ts';
import { lockNode, nodeRow } from '../../store/rows/nodes.ts';
import { requireOthersEnded } from '../release/fence.ts';
import { freezeFromDriver } from '../release/freeze-evidence.ts';
import { removeMachine } from '../release/teardown.ts';
import type { OperationServices } from '../runtime/services.ts';
import { runOrRecordFailure, skipStage, stage } from '../runtime/stage.ts';
import { readOperation, readOperationSubject, readSubject } from '../runtime/subject.ts';
import { type Assignment, assignNode, assignNodes } from './assign-node.ts';
import { bringUp, giveUpAndFreeze, maxWaitSeconds } from './bring-up.ts';
import { launchPolicy } from './launch.ts';
import { bringUpStages, nodeProvisionKind } from './provision-plan.ts';

interface BatchedRequest {
  workflow_id: WorkflowId;
  /** A retry may lock and replace a machine, so it is not batched with other requests. */
  retries: boolean;
}

type Settled = PromiseSettledResult<Assignment>;

const limits = { max_keys: 100, max_concurrent: 1 };

const isStoreUnavailable = (error: unknown) => error instanceof StoreUnavailable;

/** The answer is undefined for an operation whose row another transaction has locked. */
const assignTogether = (
  services: OperationServices,
  requests: readonly BatchedRequest[],
): Promise<(Assignment | undefined)[]> =>
  services.db.transaction(async (tx) => {
    const ids = requests.map(({ workflow_id }) => workflow_id);
    const operations = await lockManyAsExecutor(tx, ids, services.executor);
    const answers = await assignNodes(tx, services, operations, now(services.clock));
    const byId = new Map(operations.map(({ workflow_id }, index) => [workflow_id, answers[index]]));
    return ids.map((id) => byId.get(id));
  });

const assignAlone = (services: OperationServices, { workflow_id }: BatchedRequest): Promise<Assignment> =>
  services.db.transaction(async (tx) =>
    assignNode(tx, services, await lockAsExecutor(tx, workflow_id, services.executor), now(services.clock)),
  );

async function assignBatch(services: OperationServices, requests: BatchedRequest[]): Promise<Settled[]> {
  const batched = requests.filter(({ retries }) => !retries);
  const answers = await bisect(batched, (part) => assignTogether(services, part), isStoreUnavailable);
  const answerOf = new Map(batched.map((request, index) => [request, answers[index]]));
  const settled: Settled[] = [];
  for (const request of requests) {
    const answer = answerOf.get(request);
    if (answer?.status === 'rejected') settled.push(answer);
    else if (answer?.value) settled.push({ status: 'fulfilled', value: answer.value });
    else
      settled.push(
        ...(await bisect([request], async () => [await assignAlone(services, request)], isStoreUnavailable)),
      );
  }
  return settled;
}

/**
 * Batches the assignments of each pool. Requests that arrive during a transaction share the next
 * one, and wait for it without a connection.
 */
export function createAssigner(
  services: OperationServices,
): (pool: string, request: BatchedRequest) => Promise<Assignment> {
  const batchers = new Map<string, (request: BatchedRequest) => Promise<Settled>>();
  return async (pool, request) => {
    const batcher =
      batchers.get(pool) ?? createBatcher((requests: BatchedRequest[]) => assignBatch(services, requests), limits);
    batchers.set(pool, batcher);
    return unwrapSettled(await batcher(request));
  };
}

const queuePollSeconds = 5;

type Assign = ReturnType<typeof createAssigner>;
type Assigned = Extract<Assignment, { assigned: true }>;

/** Waits for a machine. The engine records only the outcome of the wait. */
async function awaitMachine(
  context: OperationContext,
  services: OperationServices,
  ask: () => Promise<Assignment>,
): Promise<Assigned> {
  const until = secondsLater(now(services.clock), maxWaitSeconds);
  let lastMessage = '';
  const answer = await context.waitFor(
    'assign:wait',
    async () => {
      const answer = await ask();
      if (answer.assigned || 'withdrawn' in answer) return answer as unknown as Json;
      if (lastMessage !== answer.waiting_for) await context.emit({ message: `Waiting for ${answer.waiting_for}` });
      lastMessage = answer.waiting_for;
      return undefined;
    },
    { until, poll_seconds: queuePollSeconds },
  );
  const assignment = answer as unknown as Assignment | undefined;
  if (assignment?.assigned) return assignment;
  if (assignment && 'withdrawn' in assignment && assignment.withdrawn === 'failed') {
    throw new StepFailed({
      step: 'assign',
      code: assignment.rule ?? 'allocation_failed',
      owner_layer: 'control_plane',
      message: assignment.reason ?? 'the allocation failed while it waited',
      tries: 1,
    });
  }
  throw new OperationCancelled();
}

const isRetry = (params: Json) => typeof params === 'object' && params !== null && 'retry' in params;

/** Removes the failed instance, with proof, before a retry replaces it. */
async function removeFormer(context: OperationContext, services: OperationServices): Promise<void> {
  const failedNode = await context.step('assign:former', async () => {
    const operation = await readOperation(services, context);
    const allocation = operation.allocation_id && (await allocationRow(services.db, operation.allocation_id));
    const node =
      allocation &&
      allocation.status === 'failed' &&
      allocation.node_id &&
      (await nodeRow(services.db, allocation.node_id));
    return node && node.status === 'failed' ? { node_id: node.node_id as string } : null;
  });
  if (!failedNode) return;
  const subject = await readSubject(services, services.db, failedNode.node_id, await readOperation(services, context));
  if (!subject.driver.launches) return;
  const isFenced = await context.step('assign:cut-off', () => {
    const at = now(services.clock);
    const fence = {
      ...subject.ids,
      workflow_id: context.workflow_id,
      reason: 'another try replaces it',
      revoke: true,
    };
    return runOnce(services.db, context.workflow_id, 'cut-off', services.executor, at, async (tx) => {
      // Check again under the row lock: a machine that was rescued meanwhile must not be removed.
      const node = await lockNode(tx, failedNode.node_id);
      if (node?.status !== 'failed' || node.node_instance_id !== subject.node_instance_id) return false;
      await fenceInstance(tx, subject.node_instance_id, fence, at);
      return true;
    });
  });
  if (!isFenced) return;
  await freezeFromDriver(context, services, 'assign:freeze', subject);
  await removeMachine(context, services, 'assign', subject, launchPolicy);
}

/**
 * The stage `assign` in separate steps: in revision 1, and for a retry, which may have to remove an
 * instance first.
 */
async function assignByStages(
  context: OperationContext,
  services: OperationServices,
  assign: Assign,
  retries: boolean,
): Promise<Assigned | undefined> {
  let assigned: Assigned | undefined;
  await stage(context, services, 'assign', async () => {
    if (retries) {
      // The failed operation may still be freezing evidence of its machine.
      await requireOthersEnded(context, services, 'assign', { cancel: false });
      await removeFormer(context, services);
    }
    const { pool } = await readOperation(services, context);
    const request = { workflow_id: context.workflow_id, retries };
    assigned = await awaitMachine(context, services, () => assign(pool ?? '', request));
  });
  return assigned;
}

/**
 * The stage `assign` as one recorded wait. Its writes are idempotent. Recording each of them would
 * cost more than everything else in assigning a free machine.
 */
const assignAtOnce = (context: OperationContext, services: OperationServices, assign: Assign): Promise<Assigned> =>
  runOrRecordFailure(context, services, 'assign', () => {
    const { db, executor, clock } = services;
    const { workflow_id } = context;
    let pool: string | null | undefined;
    return awaitMachine(context, services, async () => {
      if (pool === undefined) pool = (await enterStage(db, context, 'assign', executor, now(clock))).pool;
      const answer = await assign(pool ?? '', { workflow_id, retries: false });
      if (answer.assigned) {
        const outcome = answer.free ? { skips: bringUpStages, message: readyMessage } : { skips: [] };
        await completeStage(db, context, 'assign', outcome, executor, now(clock));
      }
      return answer;
    });
  });

const readyMessage = 'Ready';

/** Assigns a machine. Returns true if it was ready before, so that nothing is launched. */
type AssignStage = (context: OperationContext, params: Json) => Promise<boolean>;

const defineProvision = (
  services: OperationServices,
  revision: number,
  assignStage: AssignStage,
): OperationDefinition => ({
  kind: nodeProvisionKind,
  revision,
  async run(context, params) {
    try {
      if (await assignStage(context, params)) return null;
      await bringUp(context, services);
      await context.emit({ message: readyMessage });
      return null;
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      await giveUpAndFreeze(context, services, error);
      throw error;
    }
  },
});

/** Running operations replay their recorded steps, so the steps of a revision must never change. */
export function nodeProvisions(services: OperationServices): OperationDefinition[] {
  const assign = createAssigner(services);
  const skipRest = async (context: OperationContext) => {
    for (const name of bringUpStages) await skipStage(context, services, name);
    await context.emit({ message: readyMessage });
  };
  return [
    defineProvision(services, 1, async (context, params) => {
      await assignByStages(context, services, assign, isRetry(params));
      const status = await context.step(
        'standing',
        async () => (await readOperationSubject(services, context)).node.status,
      );
      const isReady = status === 'ready' || status === 'degraded';
      if (isReady) await skipRest(context);
      return isReady;
    }),
    defineProvision(services, 2, async (context, params) => {
      if (!isRetry(params)) return (await assignAtOnce(context, services, assign)).free;
      const isReady = (await assignByStages(context, services, assign, true))?.free ?? false;
      if (isReady) await skipRest(context);
      return isReady;
    }),
  ];
}
