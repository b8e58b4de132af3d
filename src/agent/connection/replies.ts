/**
 * Reads the server's replies. A reader returns null if a required field is missing or invalid. Most
 * invalid optional fields are dropped.
 */
import type {
  CredentialReply,
  HeartbeatReply,
  RegisterReply,
  SignedTask,
  TaskKeysReply,
} from '../../contract/agent/agent.ts';
import { isTaskKeys } from '../../contract/agent/task-key-chain.ts';
import { isPrerequisites } from '../state/config.ts';
import { type Fields, isFields, numberOf, textOf } from '../state/shape.ts';

export function readTaskKeys(body: unknown): TaskKeysReply | null {
  if (!isFields(body)) return null;
  const { task_keys, former_task_keys = [], task_key_refresh_seconds } = body;
  if (!isTaskKeys(task_keys) || !isTaskKeys(former_task_keys)) return null;
  return typeof task_key_refresh_seconds === 'number'
    ? { task_keys, former_task_keys, task_key_refresh_seconds }
    : null;
}

/**
 * Drops an invalid time. With it, the rotation loop would wake every millisecond and never rotate.
 */
const expiryIn = ({ credential_expires_at }: Fields): { credential_expires_at?: string | null } =>
  credential_expires_at === null ||
  (typeof credential_expires_at === 'string' && !Number.isNaN(Date.parse(credential_expires_at)))
    ? { credential_expires_at }
    : {};

export function readCredentialReply(body: unknown): CredentialReply | null {
  if (!isFields(body) || typeof body.credential !== 'string') return null;
  return { credential: body.credential, credential_expires_at: expiryIn(body).credential_expires_at ?? null };
}

export function readRegisterReply(body: unknown): RegisterReply | null {
  if (!isFields(body)) return null;
  const { node_id, node_instance_id, credential, task_keys, heartbeat_interval_seconds } = body;
  if (typeof node_id !== 'string' || typeof node_instance_id !== 'string' || !isTaskKeys(task_keys)) return null;
  if (typeof heartbeat_interval_seconds !== 'number') return null;
  const { requires } = body;
  const log_acknowledged_seq = numberOf(body.log_acknowledged_seq);
  // Without this list, the agent would use the older list of its launch configuration.
  if (requires !== undefined && !isPrerequisites(requires)) return null;
  return {
    node_id,
    node_instance_id,
    ...(typeof credential === 'string' ? { credential } : {}),
    ...expiryIn(body),
    task_keys,
    ...readTaskKeys(body),
    heartbeat_interval_seconds,
    deadline_at: textOf(body.deadline_at),
    ...(requires ? { requires } : {}),
    ...(log_acknowledged_seq !== null ? { log_acknowledged_seq } : {}),
  };
}

export type BeatReply = Omit<HeartbeatReply, 'node_status'> & { node_status: string };

export function readBeatReply(body: unknown): BeatReply | null {
  if (!isFields(body)) return null;
  const { node_status, heartbeat_interval_seconds, task_keys } = body;
  if (typeof node_status !== 'string' || typeof heartbeat_interval_seconds !== 'number') return null;
  const tasks_waiting = numberOf(body.tasks_waiting) ?? 0;
  return { node_status, heartbeat_interval_seconds, tasks_waiting, ...(isTaskKeys(task_keys) ? { task_keys } : {}) };
}

const isTask = (value: unknown): value is SignedTask =>
  isFields(value) &&
  ['task_id', 'type', 'node_id', 'node_instance_id', 'expires_at', 'kid', 'signature'].every(
    (name) => typeof value[name] === 'string',
  ) &&
  isFields(value.params) &&
  typeof value.lease_seconds === 'number';

/** Returns the task as it was received: its signature covers unknown fields too. */
export function readNextTask(body: unknown): { task: SignedTask | null } | null {
  if (!isFields(body)) return null;
  if (body.task === null) return { task: null };
  return isTask(body.task) ? { task: body.task } : null;
}

export function readLease(body: unknown): { lease_seconds: number } | null {
  const lease_seconds = isFields(body) ? numberOf(body.lease_seconds) : null;
  return lease_seconds === null ? null : { lease_seconds };
}

export function readLogsReply(body: unknown): { acknowledged_seq: number } | null {
  const acknowledged_seq = isFields(body) ? numberOf(body.acknowledged_seq) : null;
  return acknowledged_seq === null ? null : { acknowledged_seq };
}

export const readAcknowledged = (body: unknown): true | null => (isFields(body) && body.ok === true ? true : null);
