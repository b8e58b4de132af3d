/** Brings a machine up for an allocation: find or make one, launch it, wait until it registered and is ready. */
import { now, secondsLater } from '../base/clock.ts';
import type { DriverFailure } from '../drivers/driver.ts';
import type { Json, OperationContext, OperationDefinition, RetryPolicy } from '../engine/engine.ts';
import { OperationCancelled, StepFailed } from '../engine/engine.ts';
import { isFenced } from '../lifecycle/states.ts';
import { allocationRow } from '../store/allocations.ts';
import { transition } from '../store/door.ts';
import { moveAllocations } from '../store/door-allocation.ts';
import { fenced, once } from '../store/executions.ts';
import { fenceInstance } from '../store/instances.ts';
import { nodeRow } from '../store/nodes.ts';
import { type OperationRow, operationRow } from '../store/operations.ts';
import { type Assignment, assignNode } from './assign-node.ts';
import { anotherAttempt } from './attempts.ts';
import { bootstrapWatcher } from './bootstrap-watcher.ts';
import { keepClock } from './capacity.ts';
import { awaitOthers } from './fence.ts';
import { freezeFromDriver } from './freeze-evidence.ts';
import { nodeProvisionKind } from './provision-plan.ts';
import type { OperationServices } from './services.ts';
import { drive, skipStage, stage } from './stage.ts';
import { steadily } from './steadily.ts';
import { readSubject, type Subject } from './subject.ts';
import { removeMachine } from './take-down.ts';

const launchPolicy: RetryPolicy = { tries: 3, base_seconds: 1, max_seconds: 15 };
/** The door wakes the wait; asking again meanwhile only looks whether the machine crashed before it could say so. */
const watchEverySeconds = 2;
const queuePollSeconds = 5;
/** The deadline sweeps decide; the wait only has to outlast them. */
const outlastSeconds = 365 * 24 * 3600;

const operationOf = async (services: OperationServices, context: OperationContext): Promise<OperationRow> => {
  const row = await steadily(services.clock, () => operationRow(services.db, context.workflow_id));
  if (!row) throw new Error(`operation ${context.workflow_id} is not in the store`);
  return row;
};

async function assign(context: OperationContext, services: OperationServices): Promise<void> {
  const until = secondsLater(now(services.clock), outlastSeconds);
  let told = '';
  const ask = async (): Promise<Assignment> => {
    const at = now(services.clock);
    return services.db.transaction(async (tx) =>
      assignNode(tx, services, await fenced(tx, context.workflow_id, services.executor), at),
    );
  };
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
  if (assignment?.assigned) return;
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

async function subjectOf(services: OperationServices, context: OperationContext): Promise<Subject> {
  const operation = await operationOf(services, context);
  if (!operation.node_id) throw new Error(`operation ${context.workflow_id} has no node yet`);
  return readSubject(services, services.db, operation.node_id, operation);
}

/**
 * While the provider took its time a rule or a person decided; nothing more is launched into that. A machine that is already up is
 * another matter: the step that launched it was cut off, and is only repeated.
 */
const givenUp = ({ node }: Subject): DriverFailure => ({
  outcome: 'failed',
  owner_layer: node.waiting_for === 'capacity' ? 'provider' : 'node',
  code: node.verdict?.rule ?? 'node_failed',
  message: node.verdict?.reason ?? `the node is ${node.status}`,
  retryable: false,
});

async function launch(context: OperationContext, services: OperationServices): Promise<void> {
  const subject = await subjectOf(services, context);
  const ensure = async () => {
    const current = await subjectOf(services, context);
    if (isFenced(current.node.status)) return givenUp(current);
    const answer = await current.driver.ensure({
      ...current.target,
      bootstrap: {
        server_url: services.server_url(),
        other_server_urls: await services.other_server_urls(),
        enrollment_token: services.installation.enrollmentToken(current.target),
        deadline_at: (current.node.deadline_at ?? now(services.clock)).toISOString(),
        requires: current.pool.requires ?? [],
      },
    });
    await keepClock(services, current, answer);
    return answer;
  };
  await drive(context, services, 'launch:ensure', ensure, { policy: launchPolicy, subject });
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
  const seen = await context.waitFor(
    `${name}:wait`,
    async () => {
      const subject = await subjectOf(services, context);
      if (subject.node.status !== status)
        return {
          status: subject.node.status,
          reason: subject.node.verdict?.reason ?? null,
          rule: subject.node.verdict?.rule ?? null,
        };
      const crash = await watcher.look(subject);
      return crash ? { status: 'crashed', reason: crash.message, rule: crash.code } : undefined;
    },
    { until, poll_seconds: watchEverySeconds },
  );
  const after = seen as { status: string; reason: string | null; rule: string | null } | undefined;
  if (after?.status === 'crashed') {
    throw new StepFailed({
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
      owner_layer: 'node',
      message: after.reason ?? 'the node failed',
      tries: 1,
    });
  }
  if (after && ['cleaning', 'retired', 'quarantined', 'draining'].includes(after.status))
    throw new OperationCancelled();
}

/** The operation's terminal error becomes the node's verdict, and through it the allocation's. */
async function giveUp(context: OperationContext, services: OperationServices, failure: StepFailed): Promise<void> {
  await context.step('give-up', async () => {
    const at = now(services.clock);
    await once(services.db, context.workflow_id, 'give-up', services.executor, at, async (tx, operation) => {
      const reason = `${failure.message} (step ${failure.step}, owner ${failure.owner_layer})`;
      const data = { code: failure.code, owner_layer: failure.owner_layer, step: failure.step, tries: failure.tries };
      const cited = { by: 'provision-error', reason, data } as const;
      const node = operation.node_id && (await nodeRow(tx, operation.node_id));
      if (node && node.status === 'provisioning' && node.workflow_id === operation.workflow_id) {
        await transition(
          tx,
          [{ ...cited, node_id: node.node_id, to: 'failed', from: ['provisioning'] }],
          at,
          services.environment,
        );
      }
      if (operation.allocation_id) {
        await moveAllocations(
          tx,
          [
            {
              ...cited,
              allocation_id: operation.allocation_id,
              to: 'failed',
              from: ['requested'],
              owner_layer: 'workflow',
            },
          ],
          at,
          services.environment,
        );
      }
      await anotherAttempt(tx, services, operation, at);
      return null;
    });
    return null;
  });
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
  await context.step('assign:cut-off', () => {
    const at = now(services.clock);
    const fence = {
      ...subject.ids,
      workflow_id: context.workflow_id,
      reason: 'another try replaces it',
      revoke: true,
    };
    return once(services.db, context.workflow_id, 'cut-off', services.executor, at, async (tx) => {
      await fenceInstance(tx, subject.node_instance_id, fence, at);
      return null;
    });
  });
  await freezeFromDriver(context, services, 'assign:freeze', subject);
  await removeMachine(context, services, 'assign', subject, launchPolicy);
}

export function nodeProvision(services: OperationServices): OperationDefinition {
  return {
    kind: nodeProvisionKind,
    revision: 1,
    async run(context, params) {
      try {
        await stage(context, services, 'assign', async () => {
          if (isRetry(params)) {
            // The try that failed may still be keeping what its machine knew.
            await awaitOthers(context, services, 'assign', { cancel: false });
            await removeFormer(context, services);
          }
          await assign(context, services);
        });
        const standing = await context.step('standing', async () => (await subjectOf(services, context)).node.status);
        if (standing === 'ready' || standing === 'degraded') {
          for (const name of ['launch', 'register', 'start']) await skipStage(context, services, name);
        } else {
          await stage(context, services, 'launch', () => launch(context, services));
          await stage(context, services, 'register', () => awaitLeaving(context, services, 'register', 'provisioning'));
          await stage(context, services, 'start', () => awaitLeaving(context, services, 'start', 'starting'));
        }
        await context.emit({ message: 'Ready' });
        return null;
      } catch (error) {
        if (!(error instanceof StepFailed)) throw error;
        await giveUp(context, services, error);
        const launched = await context.step(
          'launched',
          async () => (await operationOf(services, context)).node_id !== null,
        );
        if (launched) await freezeFromDriver(context, services, 'freeze', await subjectOf(services, context));
        throw error;
      }
    },
  };
}
