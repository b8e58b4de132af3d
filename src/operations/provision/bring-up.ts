/**
 * Brings up a node's instance: launches it, waits for its registration, and waits until it is
 * ready. On failure the node fails with a reason, and the next attempt is queued if the pool allows
 * one.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { OperationCancelled, type OperationContext, StepFailed } from '../../engine/engine.ts';
import { pausingRules } from '../../lifecycle/model/rules.ts';
import { stageOf } from '../../lifecycle/progress/progress.ts';
import { describeBootProgress } from '../../store/agents/boot-stages.ts';
import { countInstancesSince } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { lockAllocation } from '../../store/rows/allocations.ts';
import { nodeRow } from '../../store/rows/nodes.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { findLaunchHold } from '../../store/supervision/brake.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { markRetrying } from '../../store/transitions/amend-allocation.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { freezeFromDriver } from '../release/freeze-evidence.ts';
import type { OperationServices } from '../runtime/services.ts';
import { skipStage, stage } from '../runtime/stage.ts';
import { isAgentless, readOperation, readOperationSubject, type Subject } from '../runtime/subject.ts';
import { bootstrapWatcher, promoteIfReady } from './bootstrap-watcher.ts';
import { launch, MachineEnded } from './launch.ts';
import { queueProvision } from './provision-plan.ts';

/**
 * Queues the next automatic attempt in the transaction that fails the last one, so that the
 * allocation is never without an operation in between.
 */
async function queueNextAttempt(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  at: Date,
): Promise<void> {
  const allocation = operation.allocation_id ? await lockAllocation(tx, operation.allocation_id) : undefined;
  if (!allocation?.node_id || allocation.status !== 'failed' || allocation.workflow_id !== operation.workflow_id)
    return;
  const pool = await currentPool(tx, allocation.pool);
  const maxAttempts = pool?.document.attempts ?? 1;
  if (!pool || pool.document.paused || pool.document.mode === 'observe') return;
  const attempts = await countInstancesSince(tx, allocation.node_id, allocation.created_at);
  if (attempts >= maxAttempts) return;
  // While the brake holds the pool, only a person may retry.
  if (await findLaunchHold(tx, { name: pool.name, zone: pool.document.zone ?? null }, pausingRules, at)) return;
  const workflow_id = newWorkflowId(services.clock);
  const next_try = `attempt ${attempts + 1} of ${maxAttempts}`;
  // The retry is automatic, so it has no actor.
  const { correlation_id } = operation;
  const provision = { workflow_id, allocation, correlation_id, actor: null, retry: { reason: next_try } };
  await queueProvision(tx, pool.document, services, provision, at);
  await markRetrying(tx, allocation, { workflow_id, next_try }, at);
}

/** How often to ask the provider whether an agentless machine is ready. */
const inspectEverySeconds = 5;
/**
 * A transition wakes the wait, so polling is only for machines that crash before they can report.
 */
const watchEverySeconds = 2;
/** The time limit of a wait that a deadline rule ends. It is longer than any deadline. */
export const maxWaitSeconds = 365 * 24 * 3600;

/** Waits until the node has another status than `status`, or its machine has certainly crashed. */
async function awaitNextStatus(
  context: OperationContext,
  services: OperationServices,
  name: string,
  status: 'provisioning' | 'starting',
): Promise<void> {
  const until = secondsLater(now(services.clock), maxWaitSeconds);
  const watcher = bootstrapWatcher(services, context.workflow_id);
  const isWithoutAgent = isAgentless(await readOperationSubject(services, context));
  let lastMessage: string | null = null;
  const reportBoot = async ({ node, node_instance_id }: Subject) => {
    const message = node.waiting_for
      ? `Waiting for ${node.waiting_for}`
      : await describeBootProgress(services.db, node_instance_id);
    if (message === null || message === lastMessage) return;
    lastMessage = message;
    await context.emit({ message });
  };
  const recorded = await context.waitFor(
    `${name}:wait`,
    async () => {
      const subject = await readOperationSubject(services, context);
      // Another operation has taken the node over and waits for its own instance.
      if (subject.node.workflow_id !== context.workflow_id) return { status: 'another', reason: null, rule: null };
      if (subject.node.status !== status)
        return {
          status: subject.node.status,
          reason: subject.node.verdict?.reason ?? null,
          rule: subject.node.verdict?.rule ?? null,
          owner: subject.node.verdict?.owner ?? null,
        };
      if (isAgentless(subject)) {
        await promoteIfReady(services, subject);
        return undefined;
      }
      await reportBoot(subject);
      const crash = await watcher.inspect(subject);
      return crash ? { status: 'crashed', reason: crash.message, rule: crash.code } : undefined;
    },
    { until, poll_seconds: isWithoutAgent ? inspectEverySeconds : watchEverySeconds },
  );
  const outcome = recorded as
    | { status: string; reason: string | null; rule: string | null; owner?: string | null }
    | undefined;
  if (outcome?.status === 'crashed') {
    throw new MachineEnded({
      step: name,
      code: outcome.rule ?? 'machine_crashed',
      owner_layer: 'node',
      message: outcome.reason ?? 'the machine crashed',
      tries: 1,
    });
  }
  if (outcome?.status === 'failed') {
    throw new StepFailed({
      step: name,
      code: outcome.rule ?? 'node_failed',
      owner_layer: outcome.owner ?? 'node',
      message: outcome.reason ?? 'the node failed',
      tries: 1,
    });
  }
  if (outcome && ['another', 'cleaning', 'retired', 'quarantined', 'draining'].includes(outcome.status))
    throw new OperationCancelled();
}

/**
 * Fails the node, and with it the allocation, with the operation's error as the verdict. Fails an
 * allocation without a node alone. Queues the next attempt if the pool allows one.
 */
async function giveUp(context: OperationContext, services: OperationServices, failure: StepFailed): Promise<void> {
  await context.step('give-up', async () => {
    const at = now(services.clock);
    await runOnce(services.db, context.workflow_id, 'give-up', services.executor, at, async (tx, operation) => {
      const reason = `${failure.message} (step ${stageOf(failure.step)}, owner ${failure.owner_layer})`;
      const { code, owner_layer, step, tries } = failure;
      const data = { code, owner_layer, step, tries, ...(failure instanceof MachineEnded && { certain: true }) };
      const cause = { by: 'provision-error', reason, data } as const;
      const node = operation.node_id && (await nodeRow(tx, operation.node_id));
      if (node && node.status === 'provisioning' && node.workflow_id === operation.workflow_id) {
        const failed = { ...cause, node_id: node.node_id, to: 'failed', from: ['provisioning'] } as const;
        const outcomes = await transition(tx, [failed], at, services.environment);
        requireMoved(outcomes, 'already_there', 'status_moved_on', 'observe_only');
      }
      if (operation.allocation_id) {
        const { allocation_id } = operation;
        const failed = { ...cause, allocation_id, to: 'failed', from: ['requested'], owner_layer: 'workflow' } as const;
        const outcomes = await moveAllocations(tx, [failed], at, services.environment);
        requireMoved(outcomes, 'already_there', 'status_moved_on');
      }
      await queueNextAttempt(tx, services, operation, at);
      return null;
    });
    return null;
  });
}

/** Runs the stages of `bringUpPlan`: launch, register (if there is an agent), start. */
export async function bringUp(context: OperationContext, services: OperationServices): Promise<void> {
  await stage(context, services, 'launch', () => launch(context, services));
  if (isAgentless(await readOperationSubject(services, context))) await skipStage(context, services, 'register');
  else await stage(context, services, 'register', () => awaitNextStatus(context, services, 'register', 'provisioning'));
  await awaitReady(context, services);
}

export const awaitReady = (context: OperationContext, services: OperationServices): Promise<void> =>
  stage(context, services, 'start', () => awaitNextStatus(context, services, 'start', 'starting'));

/** Gives up, and freezes the evidence of the node's machine if there is a node. */
export async function giveUpAndFreeze(
  context: OperationContext,
  services: OperationServices,
  failure: StepFailed,
): Promise<void> {
  await giveUp(context, services, failure);
  const hasNode = await context.step('launched', async () => (await readOperation(services, context)).node_id !== null);
  if (hasNode) await freezeFromDriver(context, services, 'freeze', await readOperationSubject(services, context));
}
