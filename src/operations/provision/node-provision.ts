/** Brings a machine up for an allocation: find or make one, launch it, wait until it registered and is ready. */

import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, settledAnswer } from '../../base/batching/bisect.ts';
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
import { failingStage, skipStage, stage } from '../runtime/stage.ts';
import { operationOf, readSubject, subjectOf } from '../runtime/subject.ts';
import { type Assignment, assignNode, assignNodes } from './assign-node.ts';
import { bringUp, giveUpAndFreeze, outlastSeconds } from './bring-up.ts';
import { launchPolicy } from './launch.ts';
import { bringUpStages, nodeProvisionKind } from './provision-plan.ts';

interface Ask {
  workflow_id: WorkflowId;
  /** One that is tried again may have a machine to replace, which it locks: it comes alone. */
  retries: boolean;
}

type Settled = PromiseSettledResult<Assignment>;

const limits = { max_keys: 100, max_concurrent: 1 };

const isAway = (error: unknown) => error instanceof StoreUnavailable;

/** Undefined for whoever somebody else had locked just then. */
const together = (services: OperationServices, asks: readonly Ask[]): Promise<(Assignment | undefined)[]> =>
  services.db.transaction(async (tx) => {
    const ids = asks.map(({ workflow_id }) => workflow_id);
    const operations = await lockManyAsExecutor(tx, ids, services.executor);
    const answers = await assignNodes(tx, services, operations, now(services.clock));
    const byId = new Map(operations.map(({ workflow_id }, place) => [workflow_id, answers[place]]));
    return ids.map((id) => byId.get(id));
  });

const alone = (services: OperationServices, { workflow_id }: Ask): Promise<Assignment> =>
  services.db.transaction(async (tx) =>
    assignNode(tx, services, await lockAsExecutor(tx, workflow_id, services.executor), now(services.clock)),
  );

async function serve(services: OperationServices, asks: Ask[]): Promise<Settled[]> {
  const plain = asks.filter(({ retries }) => !retries);
  const answers = await bisect(plain, (some) => together(services, some), isAway);
  const known = new Map(plain.map((ask, place) => [ask, answers[place]]));
  const settled: Settled[] = [];
  for (const ask of asks) {
    const answer = known.get(ask);
    if (answer?.status === 'rejected') settled.push(answer);
    else if (answer?.value) settled.push({ status: 'fulfilled', value: answer.value });
    else settled.push(...(await bisect([ask], async () => [await alone(services, ask)], isAway)));
  }
  return settled;
}

export function createAssigner(services: OperationServices): (pool: string, ask: Ask) => Promise<Assignment> {
  const counters = new Map<string, (ask: Ask) => Promise<Settled>>();
  return async (pool, ask) => {
    const counter = counters.get(pool) ?? createBatcher((asks: Ask[]) => serve(services, asks), limits);
    counters.set(pool, counter);
    return settledAnswer(await counter(ask));
  };
}

const queuePollSeconds = 5;

type Turns = ReturnType<typeof createAssigner>;
type Assigned = Extract<Assignment, { assigned: true }>;

/** Waits until it has a machine. Answers of the store are waited for inside: only what came of it is recorded. */
async function awaitMachine(
  context: OperationContext,
  services: OperationServices,
  ask: () => Promise<Assignment>,
): Promise<Assigned> {
  const until = secondsLater(now(services.clock), outlastSeconds);
  let told = '';
  const answer = await context.waitFor(
    'assign:wait',
    async () => {
      const answer = await ask();
      if (answer.assigned || 'withdrawn' in answer) return answer as unknown as Json;
      if (told !== answer.waiting_for) await context.emit({ message: `Waiting for ${answer.waiting_for}` });
      told = answer.waiting_for;
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

/** A retry replaces the failed instance: what is left of the old one goes first, with proof. */
async function removeFormer(context: OperationContext, services: OperationServices): Promise<void> {
  const found = await context.step('assign:former', async () => {
    const operation = await operationOf(services, context);
    const allocation = operation.allocation_id && (await allocationRow(services.db, operation.allocation_id));
    const node =
      allocation &&
      allocation.status === 'failed' &&
      allocation.node_id &&
      (await nodeRow(services.db, allocation.node_id));
    return node && node.status === 'failed' ? { node_id: node.node_id as string } : null;
  });
  if (!found) return;
  const subject = await readSubject(services, services.db, found.node_id, await operationOf(services, context));
  if (!subject.driver.launches) return;
  const cut_off = await context.step('assign:cut-off', () => {
    const at = now(services.clock);
    const fence = {
      ...subject.ids,
      workflow_id: context.workflow_id,
      reason: 'another try replaces it',
      revoke: true,
    };
    return runOnce(services.db, context.workflow_id, 'cut-off', services.executor, at, async (tx) => {
      // ProofResult at again under its lock: one that came back this very moment serves its allocation, and is not to be cut off.
      const node = await lockNode(tx, found.node_id);
      if (node?.status !== 'failed' || node.node_instance_id !== subject.node_instance_id) return false;
      await fenceInstance(tx, subject.node_instance_id, fence, at);
      return true;
    });
  });
  if (!cut_off) return;
  await freezeFromDriver(context, services, 'assign:freeze', subject);
  await removeMachine(context, services, 'assign', subject, launchPolicy);
}

/** The stage `assign` by steps of its own, where a former instance may have to go first. */
async function assignByStages(
  context: OperationContext,
  services: OperationServices,
  turns: Turns,
  retries: boolean,
): Promise<Assigned | undefined> {
  let assigned: Assigned | undefined;
  await stage(context, services, 'assign', async () => {
    if (retries) {
      // The try that failed may still be keeping what its machine knew.
      await requireOthersEnded(context, services, 'assign', { cancel: false });
      await removeFormer(context, services);
    }
    const { pool } = await operationOf(services, context);
    const ask = { workflow_id: context.workflow_id, retries };
    assigned = await awaitMachine(context, services, () => turns(pool ?? '', ask));
  });
  return assigned;
}

/**
 * The stage `assign` as one recorded wait: what is written when it begins and ends repeats harmlessly, and recording each of them costs
 * more than all the rest of giving somebody a machine that stands free.
 */
const assignAtOnce = (context: OperationContext, services: OperationServices, turns: Turns): Promise<Assigned> =>
  failingStage(context, services, 'assign', () => {
    const { db, executor, clock } = services;
    const { workflow_id } = context;
    let pool: string | null | undefined;
    return awaitMachine(context, services, async () => {
      if (pool === undefined) pool = (await enterStage(db, context, 'assign', executor, now(clock))).pool;
      const answer = await turns(pool ?? '', { workflow_id, retries: false });
      if (answer.assigned) {
        const passed = answer.free ? { skips: bringUpStages, message: readyWord } : { skips: [] };
        await completeStage(db, context, 'assign', passed, executor, now(clock));
      }
      return answer;
    });
  });

const readyWord = 'Ready';

/** Whether a machine was found that needs nothing any more. */
type Find = (context: OperationContext, params: Json) => Promise<boolean>;

const provisionBy = (services: OperationServices, revision: number, find: Find): OperationDefinition => ({
  kind: nodeProvisionKind,
  revision,
  async run(context, params) {
    try {
      if (await find(context, params)) return null;
      await bringUp(context, services);
      await context.emit({ message: readyWord });
      return null;
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      await giveUpAndFreeze(context, services, error);
      throw error;
    }
  },
});

/** Each revision takes the steps that its runs have on record. */
export function nodeProvisions(services: OperationServices): OperationDefinition[] {
  const turns = createAssigner(services);
  const skipRest = async (context: OperationContext) => {
    for (const name of bringUpStages) await skipStage(context, services, name);
    await context.emit({ message: readyWord });
  };
  return [
    provisionBy(services, 1, async (context, params) => {
      await assignByStages(context, services, turns, isRetry(params));
      const standing = await context.step('standing', async () => (await subjectOf(services, context)).node.status);
      const stands = standing === 'ready' || standing === 'degraded';
      if (stands) await skipRest(context);
      return stands;
    }),
    provisionBy(services, 2, async (context, params) => {
      if (!isRetry(params)) return (await assignAtOnce(context, services, turns)).free;
      const stands = (await assignByStages(context, services, turns, true))?.free ?? false;
      if (stands) await skipRest(context);
      return stands;
    }),
  ];
}
