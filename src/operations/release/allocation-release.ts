/**
 * Releases an allocation: fence → freeze-evidence → drain → stop → clean → prove → free or retire.
 * If the machine has not registered yet, its launch is aborted first. If the agent is dead, the
 * driver destroys the machine without it. A machine that is kept for reuse needs its agent's proof
 * that it is clean: if the agent stays silent, the release fails with `agent_silent` (teardown.ts).
 * That happens to an external machine, which no driver can destroy, and to a launched one whose
 * agent died after `decideReuse` had decided to keep the machine.
 */
import { now } from '../../base/clock.ts';
import type { OwnerLayer } from '../../contract/errors/problem.ts';
import {
  OperationCancelled,
  type OperationContext,
  type OperationDefinition,
  StepFailed,
} from '../../engine/engine.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import { stageOf } from '../../lifecycle/progress/progress.ts';
import { fenceInstance, hasAgent, isAgentFresh } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { listOpenTeardowns } from '../../store/operations/open-operations.ts';
import { allocationRow } from '../../store/rows/allocations.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, skipStage, stage } from '../runtime/stage.ts';
import {
  idsOf,
  isMachineGone,
  readAllocationOperation,
  readSubject,
  reasonWithoutTeardown,
  type Subject,
} from '../runtime/subject.ts';
import { abortIfUnregistered, fence } from './fence.ts';
import { movesWhenClean, releasePolicy } from './release-policy.ts';
import { tearDown, teardownPlan } from './teardown.ts';

export const allocationReleaseKind = 'allocation-release';

export const allocationReleasePlan: PlanStep[] = [
  { name: 'fence', label: 'Fencing the machine', usual_seconds: 0.5, within_seconds: 300 },
  ...teardownPlan,
  { name: 'free', label: 'Giving the machine back', usual_seconds: 0.5, within_seconds: 300 },
];

/**
 * Decides whether the machine is kept for the next tenant. That needs an agent that can prove the
 * machine clean, and no drain to retirement or other teardown under way (an operator may reimage or
 * retire the machine of a failed allocation). The answer is recorded once for all attempts: an
 * attempt that destroys the machine must not be followed by one that hands it on as clean.
 */
export async function decideReuse(
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
): Promise<boolean> {
  if (!reusesNodes(subject.pool)) return false;
  return context.step('reuse', () => {
    const at = now(services.clock);
    return runOnce(services.db, context.workflow_id, 'reuse', services.executor, at, async (tx) => {
      if (subject.node.drain_then === 'retire') return false;
      if ((await listOpenTeardowns(tx, subject.node.node_id)).length > 0) return false;
      if (!subject.driver.launches) return hasAgent(tx, subject.node_instance_id);
      return (await isAgentFresh(tx, subject.node_instance_id, at)) && !(await isMachineGone(subject, services.clock));
    });
  });
}

/** Retires the node or keeps it as clean, and releases the allocation, both or neither. */
export async function finish(
  context: OperationContext,
  services: OperationServices,
  subject: Subject | undefined,
  reuse: boolean,
): Promise<void> {
  await context.step('free:door', () => {
    const at = now(services.clock);
    return runOnce(services.db, context.workflow_id, 'free', services.executor, at, async (tx, operation) => {
      const reusedNode = subject && reuse ? await lockNode(tx, subject.node.node_id) : undefined;
      if (reusedNode) requireMoved(await transition(tx, movesWhenClean(reusedNode), at, services.environment));
      else if (subject) {
        // Lock the node before its instance, as a registration does; another order could deadlock.
        const retirement = {
          node_id: subject.node.node_id,
          to: 'retired',
          by: 'proof',
          reason: 'proven gone',
        } as const;
        requireMoved(await transition(tx, [retirement], at, services.environment), 'already_there');
        await fenceInstance(
          tx,
          subject.node_instance_id,
          { reason: 'the machine was released', revoke: true, ...idsOf(operation) },
          at,
        );
      }
      const reason = subject
        ? `its machine is proven ${reuse ? 'clean' : 'gone'}`
        : await reasonWithoutTeardown(tx, operation);
      const released = await moveAllocations(
        tx,
        [
          {
            allocation_id: operation.allocation_id ?? undefined,
            to: 'released',
            by: 'proof',
            reason,
            workflow_id: operation.workflow_id,
          },
        ],
        at,
        services.environment,
      );
      requireMoved(released, 'already_there');
      return null;
    });
  });
}

/** Fails the release with a reason that names the step and the layer that owns the problem. */
async function recordFailure(
  context: OperationContext,
  services: OperationServices,
  failure: StepFailed,
): Promise<void> {
  await context.step('admit-failure', () => {
    const at = now(services.clock);
    return runOnce(
      services.db,
      context.workflow_id,
      `failed:${context.attempt}`,
      services.executor,
      at,
      async (tx, operation) => {
        const { code, message, owner_layer, tries } = failure;
        const step = stageOf(failure.step);
        const reason = `release failed at step ${step} (owner ${owner_layer}): ${message}`;
        const allocation = operation.allocation_id && (await allocationRow(tx, operation.allocation_id));
        const outcomes = await moveAllocations(
          tx,
          [
            {
              allocation_id: operation.allocation_id ?? undefined,
              from: ['releasing'],
              to: 'release_failed',
              by: 'release-deadline',
              reason,
              owner_layer: owner_layer as OwnerLayer,
              data: { step: failure.step, stage: step, owner_layer, code, message, tries },
              set: { release_tries: (allocation ? allocation.release_tries : 0) + 1 },
            },
          ],
          at,
          services.environment,
        );
        // The deadline may have failed the release already, or an operator forced it.
        requireMoved(outcomes, 'already_there', 'status_moved_on');
        return null;
      },
    );
  });
}

/** Turns any error into a failure of the release, so that the release is retried. */
const toStepFailed = (error: unknown): StepFailed =>
  error instanceof StepFailed
    ? error
    : new StepFailed({
        step: 'release',
        code: 'internal_error',
        owner_layer: 'control_plane',
        message: String(error),
        tries: 1,
      });

export function allocationRelease(services: OperationServices): OperationDefinition {
  const readReleaseSubject = async (context: OperationContext): Promise<Subject | undefined> => {
    const operation = await readAllocationOperation(services, context);
    return operation.node_id ? readSubject(services, services.db, operation.node_id, operation) : undefined;
  };
  return {
    kind: allocationReleaseKind,
    revision: 1,
    async run(context) {
      try {
        await stage(context, services, 'fence', async () => {
          await fence(context, services);
          await abortIfUnregistered(context, services, await readReleaseSubject(context));
        });
        const hasNode = await context.step(
          'subject',
          async () => (await readAllocationOperation(services, context)).node_id !== null,
        );
        const subject = hasNode ? await readReleaseSubject(context) : undefined;
        const reuse = subject !== undefined && (await decideReuse(context, services, subject));
        if (subject) await tearDown(context, services, { subject, reuse, policy: releasePolicy(subject.pool) });
        else for (const { name } of teardownPlan) await skipStage(context, services, name);
        await stage(context, services, 'free', () => finish(context, services, subject, reuse));
        await context.emit({ message: 'Released' });
        return null;
      } catch (error) {
        if (!(error instanceof OperationCancelled)) await recordFailure(context, services, toStepFailed(error));
        throw error;
      }
    },
  };
}
