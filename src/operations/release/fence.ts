/**
 * The first stage of a release: ends other operations on the allocation, fences the node, and
 * aborts an unfinished launch.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { type OperationContext, StepFailed } from '../../engine/engine.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { listOpenOperations } from '../../store/operations/open-operations.ts';
import { bindOperationToNode } from '../../store/operations/operations.ts';
import { allocationRow, isHeldByAnother } from '../../store/rows/allocations.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { bindNodeToOperation } from '../../store/transitions/amend-node.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import { drive } from '../runtime/stage.ts';
import { idsOf, readAllocationOperation, readCurrentTarget, type Subject } from '../runtime/subject.ts';
import { releasePolicy } from './release-policy.ts';

const cancelTimeoutSeconds = 60;

/** A running release must not cancel the forced release that was requested to end it. */
const forceReleaseKind = 'allocation-force-release';
const pollSeconds = 1;

/**
 * Waits until the other operations on the allocation have ended, and cancels them with `cancel`.
 * Returns false on timeout.
 */
export async function awaitOtherOperations(
  context: OperationContext,
  services: OperationServices,
  stageName: string,
  { cancel, within_seconds }: { cancel: boolean; within_seconds: number },
): Promise<boolean> {
  const { allocation_id } = await readAllocationOperation(services, context);
  const until = secondsLater(now(services.clock), within_seconds);
  // With `cancel`, all other operations must end, except a later forced release. Without it, this
  // waits only for earlier ones, so that no two operations wait for each other.
  const others = async () =>
    (await listOpenOperations(services.db, allocation_id)).filter(({ workflow_id, kind }) =>
      workflow_id > context.workflow_id ? cancel && kind !== forceReleaseKind : workflow_id < context.workflow_id,
    );
  const poll = async () => {
    const openOperations = await others();
    if (cancel) for (const other of openOperations) await services.cancelRun(other.workflow_id, other.attempt);
    return openOperations.length === 0 ? true : undefined;
  };
  return (await context.waitFor(`${stageName}:others`, poll, { until, poll_seconds: pollSeconds })) ?? false;
}

/** Fails the stage if another operation on the allocation does not end in time. */
export async function requireOthersEnded(
  context: OperationContext,
  services: OperationServices,
  stageName: string,
  { cancel }: { cancel: boolean },
): Promise<void> {
  if (!(await awaitOtherOperations(context, services, stageName, { cancel, within_seconds: cancelTimeoutSeconds }))) {
    throw new StepFailed({
      step: stageName,
      code: 'operation_still_running',
      owner_layer: 'workflow',
      message: 'another operation on this allocation did not end in time',
      tries: 1,
    });
  }
}

export async function fence(context: OperationContext, services: OperationServices): Promise<void> {
  await requireOthersEnded(context, services, 'fence', { cancel: true });
  await fenceNode(context, services, 'fence:bar');
}

/**
 * Returns the node's new `drain_then`. A machine that is quarantined, or was drained to be
 * quarantined, is quarantined again after the release.
 */
const drainTargetOf = ({ status, drain_then }: NodeRow) => (status === 'quarantined' ? 'hold' : drain_then);

/**
 * Moves the node to `cleaning`. An instance that never registered is fenced, so that it cannot
 * register late.
 */
export async function fenceNode(context: OperationContext, services: OperationServices, name: string): Promise<void> {
  await context.step(name, () => {
    const at = now(services.clock);
    return runOnce(
      services.db,
      context.workflow_id,
      `fence:${context.attempt}`,
      services.executor,
      at,
      async (tx, operation) => {
        const allocation = operation.allocation_id && (await allocationRow(tx, operation.allocation_id));
        const node = allocation?.node_id ? await lockNode(tx, allocation.node_id) : undefined;
        // The machine of a failed allocation may be gone, or serve another allocation now. Then
        // nothing is torn down.
        if (
          !allocation ||
          // The release may have succeeded before it was forced.
          allocation.status === 'released' ||
          !node ||
          node.status === 'retired' ||
          (await isHeldByAnother(tx, node.node_id, allocation.allocation_id))
        ) {
          await bindOperationToNode(tx, operation.workflow_id, null);
          return null;
        }
        await bindNodeToOperation(tx, node, operation, at);
        await bindOperationToNode(tx, operation.workflow_id, node);
        const outcomes = await transition(
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
              set: { drain_then: drainTargetOf(node) },
            },
          ],
          at,
          services.environment,
        );
        requireMoved(outcomes, 'already_there');
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

/** Makes the provider stop building an unregistered machine before anything is torn down. */
export async function abortIfUnregistered(
  context: OperationContext,
  services: OperationServices,
  subject: Subject | undefined,
): Promise<void> {
  const isUnregistered = await context.step(
    'fence:unborn',
    async () => subject !== undefined && subject.instance.registered_at === null,
  );
  if (!isUnregistered || !subject) return;
  const abort = async () => subject.driver.abort(await readCurrentTarget(services, subject));
  await drive(context, services, 'fence:abort', abort, { policy: releasePolicy(subject.pool), subject });
}
