/**
 * Fetches the server's task keys at the server's interval and decides which ones to accept. TLS and
 * the credential authenticate the keys; endorsements by earlier keys confirm them.
 */
import { createBackoff } from '../../base/backoff.ts';
import { type Clock, pause } from '../../base/clock.ts';
import type { TaskKey } from '../../contract/agent/agent.ts';
import { continuityOf } from '../../contract/agent/task-key-chain.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';

export interface KeysReply {
  task_keys: TaskKey[];
  former_task_keys?: TaskKey[];
}

/**
 * The server's list replaces the stored keys, which drops retired ones. A key with a wrong
 * endorsement is refused. A key that no known key endorses is accepted, because the agent may have
 * been offline for longer than the chain of endorsements covers.
 */
export function acceptKeys(storedKeys: readonly TaskKey[], reply: KeysReply, log: Log): TaskKey[] {
  const endorsements = [...reply.task_keys, ...(reply.former_task_keys ?? [])];
  const reviewedKeys = reply.task_keys.map((key) => ({ key, continuity: continuityOf(key, storedKeys, endorsements) }));
  for (const { key, continuity } of reviewedKeys) {
    if (continuity === 'forged') log.error('a task key was refused: its endorsement is wrong', { kid: key.kid });
    if (continuity === 'unproven' && storedKeys.length > 0)
      log.warn('no known key endorses a task key, which is accepted', { kid: key.kid });
  }
  const accepted = reviewedKeys.filter(({ continuity }) => continuity !== 'forged').map(({ key }) => key);
  // With an empty list the agent could not run any task.
  return accepted.length > 0 ? accepted : [...storedKeys];
}

export function storeKeys(state: StateFile, reply: KeysReply, log: Log): void {
  const { task_keys: storedKeys } = state.read();
  const task_keys = acceptKeys(storedKeys, reply, log);
  if (JSON.stringify(task_keys) !== JSON.stringify(storedKeys)) state.update({ task_keys });
}

interface TaskKeyLoopParts {
  clock: Clock;
  server: ControlPlane;
  state: StateFile;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

interface TaskKeyLoop {
  /** Resolves to whether the server answered. */
  refresh(): Promise<boolean>;
  done: Promise<void>;
}

const minRefreshMs = 100;
const maxRefreshMs = 7 * 86_400_000;

/** Fetches the keys early enough to have a new key before the server signs tasks with it. */
export function taskKeyLoop({ clock, server, state, log, timing, signal }: TaskKeyLoopParts): TaskKeyLoop {
  const refresh = async () => {
    const answer = await server.taskKeys(signal);
    if (!answer.ok) return false;
    const { task_key_refresh_seconds } = answer.body;
    state.note({ task_key_refresh_seconds });
    storeKeys(state, answer.body, log);
    return true;
  };
  const run = async () => {
    const pauses = createBackoff(timing.rotate_retry);
    let hasFailed = false;
    // A server that names no interval does not rotate its keys and has no route for fetching them.
    while (!signal.aborted && state.read().task_key_refresh_seconds !== null) {
      const interval_ms = 1000 * (state.read().task_key_refresh_seconds ?? 0);
      // Random, so that agents that registered at the same time do not fetch at the same time.
      const regular_ms = Math.min(maxRefreshMs, Math.max(minRefreshMs, interval_ms)) * (0.5 + Math.random() / 2);
      await pause(clock, hasFailed ? Math.min(regular_ms, pauses.nextMs()) : regular_ms, signal);
      if (signal.aborted) return;
      hasFailed = !(await refresh());
      if (!hasFailed) pauses.reset();
    }
  };
  return { refresh, done: run() };
}
