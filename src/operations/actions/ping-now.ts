/**
 * Pings a machine outside of operations: checks whether a task reaches the machine and its signed
 * answer arrives.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { type CorrelationId, type NodeId, type NodeInstanceId, newTaskId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type CheckedLayer, checkPing } from '../../lifecycle/explain/checkup.ts';
import { instanceRow } from '../../store/agents/instances.ts';
import { findOpenPing, queueTask, type TaskRow, taskRow } from '../../store/agents/tasks.ts';
import { findHolders } from '../../store/rows/allocations.ts';
import { isSignedByAgent } from '../release/proof.ts';
import type { OperationServices } from '../runtime/services.ts';

const defaultTimeoutSeconds = 10;

export interface PingTarget {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  correlation_id: CorrelationId;
}

export async function queuePing(
  services: OperationServices,
  target: PingTarget,
  within_seconds = defaultTimeoutSeconds,
): Promise<string> {
  const at = now(services.clock);
  return services.db.transaction(async (tx) => {
    // The row lock makes concurrent callers share one ping.
    await instanceRow(tx, target.node_instance_id, 'for update');
    const openPing = await findOpenPing(tx, target.node_instance_id, at);
    if (openPing) return openPing.task_id;
    const task_id = newTaskId(services.clock);
    await queueTask(
      tx,
      {
        ...target,
        task_id,
        type: 'ping',
        params: {},
        lease_seconds: within_seconds,
        expires_at: secondsLater(at, within_seconds),
        allocation_id: (await findHolders(tx, [target.node_id])).get(target.node_id) ?? null,
        workflow_id: null,
      },
      at,
    );
    return task_id;
  });
}

export interface PingResult {
  task: TaskRow;
  checks: CheckedLayer[];
}

/** Throws for a task that is not a ping of this instance. */
export async function readPing(
  { db, clock }: OperationServices,
  task_id: string,
  node_instance_id: string,
): Promise<PingResult> {
  const task = await taskRow(db, task_id);
  if (task?.type !== 'ping' || task.node_instance_id !== node_instance_id) throw new ApiProblem('task_not_found');
  const instance = await instanceRow(db, node_instance_id);
  const answer = { task_id, status: 'succeeded', result: task.result, signature: task.result_signature } as const;
  const isSigned =
    task.status === 'succeeded' &&
    instance !== undefined &&
    isSignedByAgent({ node_instance_id: task.node_instance_id, instance }, answer);
  return { task, checks: checkPing({ ...task, signed: isSigned }, now(clock)) };
}
