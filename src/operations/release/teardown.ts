/**
 * Tears a machine down in the stages freeze-evidence, drain, stop, clean and prove, for release,
 * retirement and reimage. If the agent does not answer (runtime/agent-task.ts decides), the driver
 * stops, cleans and destroys the machine; only a machine that will be reused needs its agent's
 * proof. If a teardown without an allocation fails, the node is quarantined for a person.
 */
import { now, secondsLater } from '../../base/clock.ts';
import type { DriverProof } from '../../drivers/driver.ts';
import { OperationCancelled, type OperationContext, type RetryPolicy, StepFailed } from '../../engine/engine.ts';
import { stageOf } from '../../lifecycle/progress/progress.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { hasLeasedWork } from '../../store/agents/tasks.ts';
import { runOnce } from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { budgetOf, requireMoved, type TransitionEnvironment } from '../../store/transitions/transition-rules.ts';
import { type AgentContact, askAgent } from '../runtime/agent-task.ts';
import type { OperationServices } from '../runtime/services.ts';
import { drive, type PlanStep, stage } from '../runtime/stage.ts';
import { isAgentless, readCurrentTarget, type Subject } from '../runtime/subject.ts';
import { freezeFromAgent, freezeFromDriver } from './freeze-evidence.ts';
import { agentProvesWithinSeconds, proveByAgent, proveByDriver } from './proof.ts';

export const teardownPlan: PlanStep[] = [
  { name: 'freeze-evidence', label: 'Saving diagnostics', usual_seconds: 0.5, within_seconds: 300 },
  { name: 'drain', label: 'Waiting for running work', usual_seconds: 0.5, within_seconds: 86_400 },
  { name: 'stop', label: 'Stopping the workload', usual_seconds: 0.5, within_seconds: 900 },
  { name: 'clean', label: 'Cleaning up', usual_seconds: 1, within_seconds: 3600 },
  { name: 'prove', label: 'Proving that nothing is left', usual_seconds: 0.5, within_seconds: 900 },
];

const stopWithinSeconds = 20;
const drainPollSeconds = 2;

/** How long a teardown waits for running work, and for the agent to clean the machine. */
export function teardownBudgets(
  { driver, pool }: Pick<Subject, 'driver' | 'pool'>,
  reuse: boolean,
  environment: TransitionEnvironment,
): { drain_seconds: number; agent_clean_seconds: number } {
  // A launched machine that is reused is set up again, which may take as long as the first set-up.
  const needsSetup = reuse && driver.launches;
  return {
    drain_seconds: budgetOf('drain', pool, environment, null).seconds,
    agent_clean_seconds: needsSetup
      ? Math.max(agentProvesWithinSeconds, budgetOf('clean', pool, environment, null).seconds)
      : agentProvesWithinSeconds,
  };
}

/** Destroys the machine and everything tagged with its instance, and returns the proof. */
export async function removeMachine(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  policy: RetryPolicy,
): Promise<DriverProof> {
  await destroyMachine(context, services, name, subject, policy);
  return proveByDriver(context, services, `${name}:prove`, subject, subject.driver.final_proof, policy);
}

async function destroyMachine(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  policy: RetryPolicy,
): Promise<void> {
  const options = { policy, subject };
  const destroy = async () => subject.driver.destroy(await readCurrentTarget(services, subject));
  await drive(context, services, `${name}:stop`, () => stopMachine(services, subject), options);
  await drive(context, services, `${name}:destroy`, destroy, options);
}

const stopMachine = async (services: OperationServices, subject: Subject) =>
  subject.driver.stop(await readCurrentTarget(services, subject));

async function stopWorkload(
  context: OperationContext,
  services: OperationServices,
  { subject, policy }: Teardown,
  contact: AgentContact,
): Promise<void> {
  const answer = await askAgent(context, services, 'stop:agent', subject, contact, {
    type: 'release.stop',
    wait_seconds: stopWithinSeconds,
  });
  if (answer?.status === 'succeeded') return;
  await drive(context, services, 'stop:driver', () => stopMachine(services, subject), { policy, subject });
}

export interface Teardown {
  subject: Subject;
  /** True if the machine is kept for the next tenant. */
  reuse: boolean;
  policy: RetryPolicy;
}

/** Returns the proof that the machine is gone or cut off; undefined if the machine is reused. */
export async function tearDown(
  context: OperationContext,
  services: OperationServices,
  teardown: Teardown,
): Promise<DriverProof | undefined> {
  const { subject, reuse, policy } = teardown;
  const budgets = teardownBudgets(subject, reuse, services.environment);
  let proof: DriverProof | undefined;
  const contact: AgentContact = { unreachable: isAgentless(subject) };
  await stage(context, services, 'freeze-evidence', async () => {
    if (!contact.unreachable) await freezeFromAgent(context, services, 'freeze-evidence:agent', subject, contact);
    await freezeFromDriver(context, services, 'freeze-evidence', subject);
  });
  await stage(context, services, 'drain', async () => {
    const until = secondsLater(now(services.clock), budgets.drain_seconds);
    await context.waitFor(
      'drain:wait',
      async () => ((await hasLeasedWork(services.db, subject.node_instance_id)) ? undefined : true),
      { until, poll_seconds: drainPollSeconds },
    );
  });
  await stage(context, services, 'stop', () => stopWorkload(context, services, teardown, contact));
  await stage(context, services, 'clean', () => clean(context, services, teardown, contact));
  await stage(context, services, 'prove', async () => {
    // For a reused machine, the stage `clean` has recorded the agent's signed proof.
    if (reuse) return;
    if (subject.driver.final_proof === 'revoked') await revokeCredential(context, services, subject);
    proof = await proveByDriver(context, services, 'prove', subject, subject.driver.final_proof, policy);
  });
  return proof;
}

/**
 * Revokes the credential of an external machine. No driver can destroy such a machine, so the
 * revoked credential is the proof.
 */
export async function revokeCredential(
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
): Promise<void> {
  await context.step('prove:cut-off', () => {
    const at = now(services.clock);
    const fence = {
      ...subject.ids,
      workflow_id: context.workflow_id,
      reason: 'the machine was released',
      revoke: true,
    };
    return runOnce(services.db, context.workflow_id, 'cut-off', services.executor, at, async (tx) => {
      await fenceInstance(tx, subject.node_instance_id, fence, at);
      return null;
    });
  });
}

async function clean(
  context: OperationContext,
  services: OperationServices,
  { subject, reuse, policy }: Teardown,
  contact: AgentContact,
): Promise<void> {
  const { agent_clean_seconds } = teardownBudgets(subject, reuse, services.environment);
  const options = { reuse, wait_seconds: agent_clean_seconds };
  for (let tries = 1; ; tries++) {
    const { proven, problem } = await proveByAgent(
      context,
      services,
      `clean:agent:${tries}`,
      subject,
      contact,
      options,
    );
    if (proven) break;
    if (problem && tries < policy.tries) {
      await context.sleep(Math.min(policy.max_seconds, policy.base_seconds * 2 ** (tries - 1)));
      continue;
    }
    if (problem)
      throw new StepFailed({
        step: 'clean',
        code: problem.code,
        owner_layer: problem.owner_layer,
        message: problem.message,
        tries,
      });
    if (reuse) {
      throw new StepFailed({
        step: 'clean',
        code: 'agent_silent',
        owner_layer: 'node',
        message: 'the machine will be reused, but its agent is silent and cannot prove it clean',
        tries,
      });
    }
    const clean = () => subject.driver.clean(subject.target);
    await drive(context, services, 'clean:driver', clean, { policy, subject, restarts_work: true });
    break;
  }
  if (!reuse) await destroyMachine(context, services, 'clean', subject, policy);
}

/**
 * Whether this operation still owns the node's cleanup. A rule or a person may have moved the node
 * meanwhile.
 */
export const isCleanedBy = (node: NodeRow | undefined, workflow_id: string): node is NodeRow =>
  node?.status === 'cleaning' && node.workflow_id === workflow_id;

/**
 * Returns the reason of the failure and its owner. If a cancelled operation has an error in its
 * row, it was overdue; otherwise a person cancelled it.
 */
function failureReasonOf(work: string, error: unknown, { error: overdueError }: Pick<OperationRow, 'error'>) {
  if (error instanceof StepFailed) {
    const { step, code, owner_layer, tries, message } = error;
    const reason = `${work} failed at step ${stageOf(step)} (owner ${owner_layer}): ${message}`;
    return { reason, data: { step, code, owner_layer, tries } };
  }
  const unfinished = (because: string, owner_layer: string) => ({
    reason: `${work} did not finish: ${because}`,
    data: { owner_layer },
  });
  if (!(error instanceof OperationCancelled)) return unfinished(String(error), 'control_plane');
  return overdueError
    ? unfinished(overdueError.message, overdueError.owner_layer)
    : unfinished('it was cancelled', 'operator');
}

/** Quarantines the node for a person, with the failed step and its owner. */
export async function quarantineAfterFailure(
  context: OperationContext,
  services: OperationServices,
  { node: { node_id }, node_instance_id, ids }: Subject,
  work: string,
  error: unknown,
): Promise<void> {
  const { workflow_id } = context;
  await context.step('set-aside', () => {
    const at = now(services.clock);
    return runOnce(services.db, workflow_id, 'set-aside', services.executor, at, async (tx, operation) => {
      if (!isCleanedBy(await lockNode(tx, node_id), workflow_id)) return null;
      const { reason, data } = failureReasonOf(work, error, operation);
      const move = {
        node_id,
        node_instance_id,
        to: 'quarantined',
        by: 'clean-error',
        reason,
        data,
        workflow_id,
      } as const;
      requireMoved(await transition(tx, [move], at, services.environment));
      await fenceInstance(tx, node_instance_id, { ...ids, workflow_id, reason, revoke: true }, at);
      return null;
    });
  });
}
