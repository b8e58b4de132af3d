/**
 * The server's task keys: decides which of them the agent keeps, and fetches them at the server's
 * interval. TLS and the credential authenticate keys; endorsements confirm them.
 */
import { backoff } from '../../base/backoff.ts';
import { type Clock, pause } from '../../base/clock.ts';
import type { TaskKey } from '../../contract/agent/agent.ts';
import { continuityOf } from '../../contract/agent/task-key-chain.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';

export interface SentKeys {
  task_keys: TaskKey[];
  former_task_keys?: TaskKey[];
}

/**
 * The server's list replaces ours, which drops retired keys. A key with a wrong endorsement is
 * refused. One without a link to a known key is accepted: the agent may have been away for longer
 * than the chain reaches.
 */
export function acceptedKeys(known: readonly TaskKey[], sent: SentKeys, log: Log): TaskKey[] {
  const links = [...sent.task_keys, ...(sent.former_task_keys ?? [])];
  const judged = sent.task_keys.map((key) => ({ key, continuity: continuityOf(key, known, links) }));
  for (const { key, continuity } of judged) {
    if (continuity === 'forged') log.error('a task key was refused: its endorsement is wrong', { kid: key.kid });
    if (continuity === 'unproven' && known.length > 0)
      log.warn('a task key continues no key that this agent knew', { kid: key.kid });
  }
  const accepted = judged.filter(({ continuity }) => continuity !== 'forged').map(({ key }) => key);
  // Without any key the agent could run no task, not even one signed by a known key.
  return accepted.length > 0 ? accepted : [...known];
}

export function keepKeys(state: StateFile, sent: SentKeys, log: Log): void {
  const { task_keys: known } = state.read();
  const task_keys = acceptedKeys(known, sent, log);
  if (JSON.stringify(task_keys) !== JSON.stringify(known)) state.update({ task_keys });
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
  /** Resolves with whether the server answered. */
  refresh(): Promise<boolean>;
  done: Promise<void>;
}

const minRefreshMs = 100;
const maxRefreshMs = 7 * 86_400_000;

/** Fetches the keys, so that a new key is known before it signs and a retired one is dropped. */
export function taskKeyLoop({ clock, server, state, log, timing, signal }: TaskKeyLoopParts): TaskKeyLoop {
  const refresh = async () => {
    const answer = await server.taskKeys(signal);
    if (!answer.ok) return false;
    const { task_key_refresh_seconds } = answer.body;
    state.note({ task_key_refresh_seconds });
    keepKeys(state, answer.body, log);
    return true;
  };
  const run = async () => {
    const pauses = backoff(timing.rotate_retry);
    let failed = false;
    // A server that names no interval does not rotate its keys, and has no route for them.
    while (!signal.aborted && state.read().task_key_refresh_seconds !== null) {
      const interval_ms = 1000 * (state.read().task_key_refresh_seconds ?? 0);
      // Random, so that a fleet that registered together does not ask together.
      const regular_ms = Math.min(maxRefreshMs, Math.max(minRefreshMs, interval_ms)) * (0.5 + Math.random() / 2);
      await pause(clock, failed ? Math.min(regular_ms, pauses.nextMs()) : regular_ms, signal);
      if (signal.aborted) return;
      failed = !(await refresh());
      if (!failed) pauses.reset();
    }
  };
  return { refresh, done: run() };
}
