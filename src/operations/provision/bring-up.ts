/**
 * What every operation does that brings a machine up, once the node has an instance to bring up: launch it, wait until it
 * registered, wait until it is ready; and, if that comes to nothing, give it up with the reason.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { ownerLayers } from '../../contract/errors/problem.ts';
import type { DriverFailure } from '../../drivers/driver.ts';
import type { OperationContext, RetryPolicy } from '../../engine/engine.ts';
import { OperationCancelled, StepFailed } from '../../engine/engine.ts';
import { isFenced } from '../../lifecycle/model/states.ts';
import { latestBootNews } from '../../store/agents/boot-stages.ts';
import { runOnce } from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { operationRow } from '../../store/operations/operations.ts';
import { nodeRow } from '../../store/rows/nodes.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { freezeFromDriver } from '../release/freeze-evidence.ts';
import { steadily } from '../runtime/retry-while-unavailable.ts';
import type { OperationServices } from '../runtime/services.ts';
import { drive, skipStage, stage, stageOf } from '../runtime/stage.ts';
import { isObserved, readSubject, type Subject } from '../runtime/subject.ts';
import { anotherAttempt } from './attempts.ts';
import { bootstrapWatcher } from './bootstrap-watcher.ts';
import { keepClock } from './capacity.ts';
import { launchSpec } from './launch-secrets.ts';
import { ensured, promoteIfReady } from './observed-start.ts';

export const launchPolicy: RetryPolicy = { tries: 3, base_seconds: 1, max_seconds: 15 };
/** How often a provider is asked whether what it finished is ready. */
const observeEverySeconds = 5;
/** The door wakes the wait; asking again meanwhile only looks whether the machine crashed before it could say so. */
const watchEverySeconds = 2;
/** The deadline sweeps decide; the wait only has to outlast them. */
export const outlastSeconds = 365 * 24 * 3600;

export const operationOf = async (services: OperationServices, context: OperationContext): Promise<OperationRow> => {
  const row = await steadily(services.clock, () => operationRow(services.db, context.workflow_id));
  if (!row) throw new Error(`operation ${context.workflow_id} is not in the store`);
  return row;
};

export async function subjectOf(services: OperationServices, context: OperationContext): Promise<Subject> {
  const operation = await operationOf(services, context);
  if (!operation.node_id) throw new Error(`operation ${context.workflow_id} has no node yet`);
  return readSubject(services, services.db, operation.node_id, operation);
}

/** What a step fails by that saw its machine end, in contrast to one that ended because a rule had decided. */
class MachineEnded extends StepFailed {}

/**
 * While the provider took its time a rule or a person decided; nothing more is launched into that. A machine that is already up is
 * another matter: the step that launched it was cut off, and is only repeated.
 */
const givenUp = ({ node }: Subject): DriverFailure => ({
  outcome: 'failed',
  owner_layer: ownerLayers.find((each) => each === node.verdict?.owner) ?? 'node',
  code: node.verdict?.rule ?? 'node_failed',
  message: node.verdict?.reason ?? `the node is ${node.status}`,
  retryable: false,
});

async function launch(context: OperationContext, services: OperationServices): Promise<void> {
  const subject = await subjectOf(services, context);
  const ensure = async () => {
    const current = await subjectOf(services, context);
    if (isFenced(current.node.status)) return givenUp(current);
    const launching = await launchSpec(services, current.target.spec);
    if (launching.outcome === 'failed') return launching;
    const answer = await current.driver.ensure({
      ...current.target,
      spec: launching.spec,
      bootstrap: {
        server_url: services.server_url(),
        ca: services.public_ca,
        other_server_urls: await services.other_server_urls(),
        otlp_endpoint: services.otlp_endpoint ?? null,
        enrollment_token: services.installation.enrollmentToken(current.target),
        deadline_at: (current.node.deadline_at ?? now(services.clock)).toISOString(),
        requires: current.pool.requires ?? [],
        secret_env: launching.secret_env,
      },
    });
    await keepClock(services, current, answer);
    return answer;
  };
  const isOver = async () => isFenced((await subjectOf(services, context)).node.status);
  const how = { policy: launchPolicy, subject, isOver };
  const done = await drive(context, services, 'launch:ensure', ensure, how).catch((failure: unknown) => {
    // Nobody registers late where no agent runs: what its provider refused does not come by waiting.
    throw failure instanceof StepFailed && isObserved(subject) ? new MachineEnded(failure) : failure;
  });
  if (isObserved(subject)) await ensured(context, services, subject, done);
}

/** Waits until the node has left `status`; a machine that crashed for certain is not waited for. */
async function awaitLeaving(
  context: OperationContext,
  services: OperationServices,
  name: string,
  status: 'provisioning' | 'starting',
): Promise<void> {
  const until = secondsLater(now(services.clock), outlastSeconds);
  const watcher = bootstrapWatcher(services, context.workflow_id);
  const agentless = isObserved(await subjectOf(services, context));
  let told: string | null = null;
  const tellBoot = async ({ node, node_instance_id }: Subject) => {
    const news = node.waiting_for
      ? `Waiting for ${node.waiting_for}`
      : await latestBootNews(services.db, node_instance_id);
    if (news === null || news === told) return;
    told = news;
    await context.emit({ message: news });
  };
  const seen = await context.waitFor(
    `${name}:wait`,
    async () => {
      const subject = await subjectOf(services, context);
      // Whoever works on it now waits for another instance.
      if (subject.node.workflow_id !== context.workflow_id) return { status: 'another', reason: null, rule: null };
      if (subject.node.status !== status)
        return {
          status: subject.node.status,
          reason: subject.node.verdict?.reason ?? null,
          rule: subject.node.verdict?.rule ?? null,
          owner: subject.node.verdict?.owner ?? null,
        };
      if (isObserved(subject)) {
        await promoteIfReady(services, subject);
        return undefined;
      }
      await tellBoot(subject);
      const crash = await watcher.look(subject);
      return crash ? { status: 'crashed', reason: crash.message, rule: crash.code } : undefined;
    },
    { until, poll_seconds: agentless ? observeEverySeconds : watchEverySeconds },
  );
  const after = seen as
    | { status: string; reason: string | null; rule: string | null; owner?: string | null }
    | undefined;
  if (after?.status === 'crashed') {
    throw new MachineEnded({
      step: name,
      code: after.rule ?? 'machine_crashed',
      owner_layer: 'node',
      message: after.reason ?? 'the machine crashed',
      tries: 1,
    });
  }
  if (after?.status === 'failed') {
    throw new StepFailed({
      step: name,
      code: after.rule ?? 'node_failed',
      owner_layer: after.owner ?? 'node',
      message: after.reason ?? 'the node failed',
      tries: 1,
    });
  }
  if (after && ['another', 'cleaning', 'retired', 'quarantined', 'draining'].includes(after.status))
    throw new OperationCancelled();
}

/** The operation's terminal error becomes the node's verdict, and through it the allocation's. */
async function giveUp(context: OperationContext, services: OperationServices, failure: StepFailed): Promise<void> {
  await context.step('give-up', async () => {
    const at = now(services.clock);
    await runOnce(services.db, context.workflow_id, 'give-up', services.executor, at, async (tx, operation) => {
      const reason = `${failure.message} (step ${stageOf(failure.step)}, owner ${failure.owner_layer})`;
      const { code, owner_layer, step, tries } = failure;
      const data = { code, owner_layer, step, tries, ...(failure instanceof MachineEnded && { certain: true }) };
      const cited = { by: 'provision-error', reason, data } as const;
      const node = operation.node_id && (await nodeRow(tx, operation.node_id));
      if (node && node.status === 'provisioning' && node.workflow_id === operation.workflow_id) {
        const failed = { ...cited, node_id: node.node_id, to: 'failed', from: ['provisioning'] } as const;
        const outcomes = await transition(tx, [failed], at, services.environment);
        requireMoved(outcomes, 'already_there', 'status_moved_on', 'observed');
      }
      if (operation.allocation_id) {
        const { allocation_id } = operation;
        const failed = { ...cited, allocation_id, to: 'failed', from: ['requested'], owner_layer: 'workflow' } as const;
        const outcomes = await moveAllocations(tx, [failed], at, services.environment);
        requireMoved(outcomes, 'already_there', 'status_moved_on');
      }
      await anotherAttempt(tx, services, operation, at);
      return null;
    });
    return null;
  });
}

/** Launch, register (where there is an agent to), start: the stages of `bringUpPlan`. */
export async function bringUp(context: OperationContext, services: OperationServices): Promise<void> {
  await stage(context, services, 'launch', () => launch(context, services));
  if (isObserved(await subjectOf(services, context))) await skipStage(context, services, 'register');
  else await stage(context, services, 'register', () => awaitLeaving(context, services, 'register', 'provisioning'));
  await awaitReady(context, services);
}

export const awaitReady = (context: OperationContext, services: OperationServices): Promise<void> =>
  stage(context, services, 'start', () => awaitLeaving(context, services, 'start', 'starting'));

/** What could not be brought up is given up, and what its machine knows is kept. */
export async function giveUpAndFreeze(
  context: OperationContext,
  services: OperationServices,
  failure: StepFailed,
): Promise<void> {
  await giveUp(context, services, failure);
  const launched = await context.step('launched', async () => (await operationOf(services, context)).node_id !== null);
  if (launched) await freezeFromDriver(context, services, 'freeze', await subjectOf(services, context));
}
