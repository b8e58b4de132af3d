/** Stops the workload: SIGTERM, grace period, SIGKILL. Succeeds only if nothing of it is left. */
import { numberOf } from '../state/shape.ts';
import { failed, succeeded, type TaskType } from './task.ts';

export const releaseStop: TaskType = async ({ task, machine }) => {
  const grace_seconds = numberOf(task.params.grace_seconds);
  const left = await machine.stopCommand(grace_seconds === null ? null : grace_seconds * 1000);
  if (left.length === 0) return succeeded({ stopped: true });
  return failed('stop_failed', `still running after SIGKILL: ${left.map(({ pid }) => pid).join(', ')}`);
};
