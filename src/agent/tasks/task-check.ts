/**
 * Decides whether a task may run here. The control plane must have signed it for this instance, it
 * must not have expired, and its type must be known.
 */
import type { SignedTask, TaskKey } from '../../contract/agent/agent.ts';
import { isSignedBy } from '../connection/keys.ts';
import { errorText } from '../state/shape.ts';

export type RefusalCode = 'task_signature_invalid' | 'task_wrong_node' | 'task_expired' | 'task_type_unknown';

export interface Refusal {
  code: RefusalCode;
  message: string;
}

export interface TaskCheck {
  keys: readonly TaskKey[];
  node_id: string;
  node_instance_id: string;
  /** The server's time, not this machine's. */
  now_ms: number;
  supportsType(type: string): boolean;
}

/**
 * Returns null for a task that may run. Checks the signature first: nothing in an unsigned task can
 * be trusted.
 */
export function refusalOf(task: SignedTask, check: TaskCheck): Refusal | null {
  const fault = signatureFault(task, check);
  if (fault) return { code: 'task_signature_invalid', message: fault };
  if (task.node_id !== check.node_id || task.node_instance_id !== check.node_instance_id) {
    const message = `the task is for ${task.node_id}/${task.node_instance_id}; this is ${check.node_id}/${check.node_instance_id}`;
    return { code: 'task_wrong_node', message };
  }
  // An unreadable time counts as passed.
  if (!(Date.parse(task.expires_at) > check.now_ms)) {
    return { code: 'task_expired', message: `the task expired at ${task.expires_at}` };
  }
  if (!check.supportsType(task.type)) {
    return { code: 'task_type_unknown', message: `this agent has no task type ${JSON.stringify(task.type)}` };
  }
  return null;
}

function signatureFault(task: SignedTask, { keys, now_ms }: TaskCheck): string | null {
  const key = keys.find(({ kid }) => kid === task.kid);
  if (!key) return `no known key has the id ${JSON.stringify(task.kid)}`;
  // An unreadable time counts as passed.
  if (key.accepted_until !== undefined && !(Date.parse(key.accepted_until) > now_ms))
    return `the key ${key.kid} was retired at ${key.accepted_until}`;
  const { signature, ...content } = task;
  try {
    return isSignedBy(key.public_key, content, signature) ? null : 'the signature does not match the task';
  } catch (error) {
    return `the signature cannot be checked: ${errorText(error)}`;
  }
}
