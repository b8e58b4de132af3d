/** Gives an allocation back: fence → freeze-evidence → drain → stop → clean → prove → free or retire. Before `active` it is a verified cancel. */
import { now, secondsLater } from '../base/clock.ts';
import type { PoolDocument } from '../contract/pool.ts';
import type { OwnerLayer } from '../contract/problem.ts';
import type { OperationContext, OperationDefinition, RetryPolicy } from '../engine/engine.ts';
import { StepFailed } from '../engine/engine.ts';
import { allocationRow, isHeldByAnother } from '../store/allocations.ts';
import { bindNodeToOperation } from '../store/amend-node.ts';
import { transition } from '../store/door.ts';
import { moveAllocations } from '../store/door-allocation.ts';
import { once } from '../store/executions.ts';
import { fenceInstance } from '../store/instances.ts';
import { lockNode } from '../store/nodes.ts';
import { bindOperationToNode, type OperationRow, openOperationsOf, operationRow } from '../store/operations.ts';
import type { OperationServices } from './services.ts';
import { drive, type PlanStep, skipStage, stage } from './stage.ts';
import { readSubject, type Subject } from './subject.ts';
import { takeDown, takeDownPlan } from './take-down.ts';

export const allocationReleaseKind = 'allocation-release';

export const allocationReleasePlan: PlanStep[] = [
  { name: 'fence', label: 'Fencing the machine', usual_seconds: 0.5 },
  ...takeDownPlan,
  { name: 'free', label: 'Giving the machine back', usual_seconds: 0.5 },
];

const cancelWithinSeconds = 60;
const pollSeconds = 1;

export const reusesNodes = (pool: PoolDocument): boolean => pool.reuse ?? pool.driver === 'external';

export const releasePolicy = (pool: PoolDocument): RetryPolicy => ({
  tries: pool.release?.step_tries ?? 3,
  base_seconds: Math.min(pool.release?.retry_base_seconds ?? 30, 1),
  max_seconds: pool.release?.retry_max_seconds ?? 900,
});

const operationOf = async (
  services: OperationServices,
  context: OperationContext,
): Promise<OperationRow & { allocation_id: NonNullable<OperationRow['allocation_id']> }> => {
  const row = await operationRow(services.db, context.workflow_id);
  if (!row?.allocation_id) throw new Error(`operation ${context.workflow_id} has no allocation`);
  return { ...row, allocation_id: row.allocation_id };
};

const idsOf = ({ workflow_id, correlation_id, allocation_id }: OperationRow) => ({
  workflow_id,
  correlation_id,
  allocation_id,
});

/** Whatever still brings the machine up must end first, or it would work against us. */
async function stopBringingUp(context: OperationContext, services: OperationServices): Promise<void> {
  const { allocation_id } = await operationOf(services, context);
  const until = secondsLater(now(services.clock), cancelWithinSeconds);
  const others = async () =>
    (await openOperationsOf(services.db, allocation_id)).filter((each) => each.workflow_id !== context.workflow_id);
  await context.step('fence:cancel', async () => {
    for (const other of await others()) await services.cancelRun(other.workflow_id, other.attempt);
    return null;
  });
  const ended = await context.waitFor(
    'fence:cancelled',
    async () => ((await others()).length === 0 ? true : undefined),
    { until, poll_seconds: pollSeconds },
  );
  if (!ended) {
    throw new StepFailed({
      step: 'fence',
      code: 'operation_still_running',
      owner_layer: 'workflow',
      message: 'another operation on this allocation did not end in time',
      tries: 1,
    });
  }
}

/** Bars the node. An instance that never registered is fenced for good, so that a late registration is told the truth. */
async function fence(context: OperationContext, services: OperationServices): Promise<void> {
  await stopBringingUp(context, services);
  await context.step('fence:bar', () => {
    const at = now(services.clock);
    return once(
      services.db,
      context.workflow_id,
      `fence:${context.attempt}`,
      services.executor,
      at,
      async (tx, operation) => {
        const known = operation.allocation_id && (await allocationRow(tx, operation.allocation_id));
        const node = known?.node_id ? await lockNode(tx, known.node_id) : undefined;
        // A failed allocation's machine may be gone or serve another one by now; then there is nothing of ours to take down.
        if (
          !known ||
          !node ||
          node.status === 'retired' ||
          (await isHeldByAnother(tx, node.node_id, known.allocation_id))
        ) {
          await bindOperationToNode(tx, operation.workflow_id, null);
          return null;
        }
        await bindNodeToOperation(tx, node, operation, at);
        await bindOperationToNode(tx, operation.workflow_id, node);
        await transition(
          tx,
          [
            {
              node_id: node.node_id,
              to: 'cleaning',
              by: 'release',
              reason: 'its allocation is being released',
              actor: operation.actor,
              workflow_id: operation.workflow_id,
              correlation_id: operation.correlation_id,
            },
          ],
          at,
          services.environment,
        );
        if (node.node_instance_id && !node.registered_at)
          await fenceInstance(
            tx,
            node.node_instance_id,
            { reason: 'its allocation was released before it registered', revoke: false, ...idsOf(operation) },
            at,
          );
        return null;
      },
    );
  });
}

/** A verified cancel: what the provider still builds is told to stop before anything else is touched. */
async function abortIfUnborn(
  context: OperationContext,
  services: OperationServices,
  subject: Subject | undefined,
): Promise<void> {
  const unborn = await context.step(
    'fence:unborn',
    async () => subject !== undefined && subject.instance.registered_at === null,
  );
  if (!unborn || !subject) return;
  await drive(context, services, 'fence:abort', () => subject.driver.abort(subject.target), {
    policy: releasePolicy(subject.pool),
    subject,
  });
}

async function finish(
  context: OperationContext,
  services: OperationServices,
  subject: Subject | undefined,
): Promise<void> {
  await context.step('free:door', () => {
    const at = now(services.clock);
    return once(services.db, context.workflow_id, 'free', services.executor, at, async (tx, operation) => {
      const reuse = subject && reusesNodes(subject.pool);
      if (subject && reuse) {
        await transition(
          tx,
          [{ node_id: subject.node.node_id, to: 'ready', by: 'proof', reason: 'proven clean, free again' }],
          at,
          services.environment,
        );
      } else if (subject) {
        await fenceInstance(
          tx,
          subject.node_instance_id,
          { reason: 'the machine was released', revoke: true, ...idsOf(operation) },
          at,
        );
        await transition(
          tx,
          [{ node_id: subject.node.node_id, to: 'retired', by: 'proof', reason: 'proven gone' }],
          at,
          services.environment,
        );
      }
      const reason = !subject
        ? 'nothing had been brought up'
        : reuse
          ? 'its machine is proven clean'
          : 'its machine is proven gone';
      const [outcome] = await moveAllocations(
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
      if (!outcome?.moved && outcome?.because !== 'already_there')
        throw new Error(`the allocation could not be released: ${outcome?.because}`);
      return null;
    });
  });
}

/** The reason names the step and the layer that owns the problem, so that nobody has to guess where to look. */
async function admitFailure(
  context: OperationContext,
  services: OperationServices,
  failure: StepFailed,
): Promise<void> {
  await context.step('admit-failure', () => {
    const at = now(services.clock);
    return once(
      services.db,
      context.workflow_id,
      `failed:${context.attempt}`,
      services.executor,
      at,
      async (tx, operation) => {
        const reason = `release failed at step ${failure.step.split(':')[0]} (owner ${failure.owner_layer}): ${failure.message}`;
        const known = operation.allocation_id && (await allocationRow(tx, operation.allocation_id));
        await moveAllocations(
          tx,
          [
            {
              allocation_id: operation.allocation_id ?? undefined,
              to: 'release_failed',
              by: 'release-deadline',
              reason,
              owner_layer: failure.owner_layer as OwnerLayer,
              data: { step: failure.step, code: failure.code, tries: failure.tries },
              set: { release_tries: (known ? known.release_tries : 0) + 1 },
            },
          ],
          at,
          services.environment,
        );
        return null;
      },
    );
  });
}

export function allocationRelease(services: OperationServices): OperationDefinition {
  const subjectOf = async (context: OperationContext): Promise<Subject | undefined> => {
    const operation = await operationOf(services, context);
    return operation.node_id ? readSubject(services, services.db, operation.node_id, operation) : undefined;
  };
  return {
    kind: allocationReleaseKind,
    revision: 1,
    async run(context) {
      try {
        await stage(context, services, 'fence', async () => {
          await fence(context, services);
          await abortIfUnborn(context, services, await subjectOf(context));
        });
        const hasNode = await context.step(
          'subject',
          async () => (await operationOf(services, context)).node_id !== null,
        );
        const subject = hasNode ? await subjectOf(context) : undefined;
        if (subject)
          await takeDown(context, services, {
            subject,
            reuse: reusesNodes(subject.pool),
            policy: releasePolicy(subject.pool),
          });
        else for (const { name } of takeDownPlan) await skipStage(context, services, name);
        await stage(context, services, 'free', () => finish(context, services, subject));
        await context.emit({ message: 'Released' });
        return null;
      } catch (error) {
        if (error instanceof StepFailed) await admitFailure(context, services, error);
        throw error;
      }
    },
  };
}
