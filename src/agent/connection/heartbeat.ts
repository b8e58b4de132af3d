/**
 * Sends heartbeats at the interval that the server assigned last, at once when the report changes,
 * and after a failure earlier than at the next interval.
 */
import { addJitter, createBackoff } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import type { SelfReport } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import { storeKeys } from '../tasks/task-keys.ts';
import type { Timing } from '../timing.ts';
import { describeFailure } from './call-failure.ts';
import type { ControlPlane } from './control-plane.ts';
import type { BeatReply } from './replies.ts';

export interface HeartbeatParts {
  clock: Clock;
  server: ControlPlane;
  report: SelfReport;
  state: StateFile;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  onReply(reply: BeatReply): void;
}

export interface HeartbeatLoop {
  /** Sends a heartbeat now, and resolves when it was answered or failed. */
  beat(): Promise<void>;
  /** Sends the next heartbeat within this time if it is due later. */
  beatWithin(seconds: number): void;
  done: Promise<void>;
}

/** Clamps the interval, so that a wrong value neither floods the server nor silences the agent. */
const clampInterval = (seconds: number) => Math.min(3600, Math.max(0.05, seconds));

/**
 * The longest pause between retries, unless a third of the interval is longer. A small fleet
 * recovers within seconds after an outage; a large fleet must not return all at once.
 */
const default_max_pause_ms = 4_000;

/** The reply to a heartbeat lets a released machine resume, so it sends one at least this often. */
const cleaningIntervalSeconds = 1;
const chooseIntervalSeconds = ({ node_status, heartbeat_interval_seconds }: BeatReply) =>
  node_status === 'cleaning'
    ? Math.min(cleaningIntervalSeconds, heartbeat_interval_seconds)
    : heartbeat_interval_seconds;

export function heartbeatLoop(parts: HeartbeatParts): HeartbeatLoop {
  const { clock, server, report, state, log, timing, signal, onReply } = parts;
  const beatPause = waker(clock, signal);
  const pauses = createBackoff(timing.beat_retry);
  /** The assigned interval, which also limits the pause before a retry. */
  let interval_ms = Number.POSITIVE_INFINITY;

  /** Returns how long to wait until the next heartbeat. */
  const beat = async (): Promise<number> => {
    const answer = await server.heartbeat(report.current(), signal);
    if (answer.ok) {
      if (pauses.tries() > 0) log.info('heartbeats are answered again', { failed_beats: pauses.tries() });
      pauses.reset();
      if (answer.body.task_keys) storeKeys(state, { task_keys: answer.body.task_keys }, log);
      onReply(answer.body);
      interval_ms = clampInterval(chooseIntervalSeconds(answer.body)) * 1000;
      return addJitter(interval_ms);
    }
    if (signal.aborted) return 0;
    // The server received the heartbeat but is overloaded. This is not a failure, and the server
    // says when the next heartbeat is due.
    const { code, retry_after_seconds } = answer.failure;
    if (code === 'beats_slow_down' && retry_after_seconds !== null) {
      pauses.reset();
      return clampInterval(retry_after_seconds) * 1000;
    }
    const max_pause_ms = Math.max(default_max_pause_ms, interval_ms / 3);
    // After `no_answer` the agent has already waited for its timeout. It waits longer only in a
    // large fleet.
    const hasWaited = code === 'no_answer' && max_pause_ms === default_max_pause_ms;
    const next_ms = pauses.nextMs();
    const pause_ms = Math.min(hasWaited ? timing.beat_retry.first_ms : next_ms, interval_ms, max_pause_ms);
    const retry_ms = Math.max(pause_ms, (answer.failure.retry_after_seconds ?? 0) * 1000);
    if (pauses.tries() === 1) log.warn('a heartbeat failed', { failure: describeFailure(answer.failure) });
    return retry_ms;
  };

  let due_ms = Number.POSITIVE_INFINITY;
  const run = async () => {
    while (!signal.aborted) {
      // A call of `beatWithin` during this heartbeat schedules another one.
      due_ms = Number.POSITIVE_INFINITY;
      const wait_ms = await beat();
      due_ms = clock.monotonicMs() + wait_ms;
      await beatPause.rest(wait_ms);
    }
  };
  report.onChange(beatPause.wake);
  return {
    async beat() {
      await beat();
    },
    beatWithin(seconds) {
      // The server asks the whole fleet at once, so each agent picks a random moment.
      const wait_ms = Math.random() * clampInterval(seconds) * 1000;
      if (clock.monotonicMs() + wait_ms >= due_ms) return;
      due_ms = clock.monotonicMs() + wait_ms;
      clock.after(wait_ms, beatPause.wake);
    },
    done: run(),
  };
}
