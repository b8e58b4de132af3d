/**
 * Fetches the task keys at the server's interval, so that a new key is known before it signs and a
 * retired one is dropped.
 */
import { backoff } from '../../../base/backoff.ts';
import { type Clock, pause } from '../../../base/clock.ts';
import type { ControlPlane } from '../../connection/control-plane.ts';
import type { Log } from '../../log.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { Timing } from '../../timing.ts';
import { keepKeys } from './accept.ts';

export interface TaskKeyLoopParts {
  clock: Clock;
  server: ControlPlane;
  state: StateFile;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

export interface TaskKeyLoop {
  /** Resolves with whether the server answered. */
  refresh(): Promise<boolean>;
  done: Promise<void>;
}

const minRefreshMs = 100;
const maxRefreshMs = 7 * 86_400_000;

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
