/**
 * Sends heartbeats at the interval that the server assigned last, at once when the report changes,
 * and sooner after a failure.
 */
import { backoff, jittered } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import type { SelfReport } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import { keepKeys } from '../tasks/task-keys.ts';
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
  /** The server wants a heartbeat within this time, earlier than the next one is due. */
  sooner(seconds: number): void;
  done: Promise<void>;
}

/** Clamps the interval, so that a wrong value neither floods the server nor silences the agent. */
const clampInterval = (seconds: number) => Math.min(3600, Math.max(0.05, seconds));

/**
 * Longest pause between retries, or a third of the interval if that is longer. A small fleet
 * recovers within seconds of an outage; a large one, with long intervals, does not return all at
 * once.
 */
const min_cap_ms = 4_000;

/** A released machine should resume soon after it is free, not at its next regular heartbeat. */
const whileCleaningSeconds = 1;
const nextSeconds = ({ node_status, heartbeat_interval_seconds }: BeatReply) =>
  node_status === 'cleaning' ? Math.min(whileCleaningSeconds, heartbeat_interval_seconds) : heartbeat_interval_seconds;

export function heartbeatLoop(parts: HeartbeatParts): HeartbeatLoop {
  const { clock, server, report, state, log, timing, signal, onReply } = parts;
  const rest = waker(clock, signal);
  const pauses = backoff(timing.beat_retry);
  /**
   * The assigned interval. A retry never comes later than the next regular heartbeat would have.
   */
  let interval_ms = Number.POSITIVE_INFINITY;

  /** Returns how long to wait until the next heartbeat. */
  const beat = async (): Promise<number> => {
    const answer = await server.heartbeat(report.current(), signal);
    if (answer.ok) {
      if (pauses.tries() > 0) log.info('heartbeats are answered again', { failed_beats: pauses.tries() });
      pauses.reset();
      if (answer.body.task_keys) keepKeys(state, { task_keys: answer.body.task_keys }, log);
      onReply(answer.body);
      interval_ms = clampInterval(nextSeconds(answer.body)) * 1000;
      return jittered(interval_ms);
    }
    if (signal.aborted) return 0;
    // The heartbeat was received, but the server is overloaded: not a failure, and the server says
    // when the next is due.
    const { code, retry_after_seconds } = answer.failure;
    if (code === 'beats_slow_down' && retry_after_seconds !== null) {
      pauses.reset();
      return clampInterval(retry_after_seconds) * 1000;
    }
    const cap_ms = Math.max(min_cap_ms, interval_ms / 3);
    // The timeout was pause enough, unless the fleet is large.
    const hasWaited = code === 'no_answer' && cap_ms === min_cap_ms;
    const next_ms = pauses.nextMs();
    const pause_ms = Math.min(hasWaited ? timing.beat_retry.first_ms : next_ms, interval_ms, cap_ms);
    const retry_ms = Math.max(pause_ms, (answer.failure.retry_after_seconds ?? 0) * 1000);
    if (pauses.tries() === 1) log.warn('a heartbeat failed', { failure: describeFailure(answer.failure) });
    return retry_ms;
  };

  let due_ms = Number.POSITIVE_INFINITY;
  const run = async () => {
    while (!signal.aborted) {
      // A request for an earlier heartbeat during this one is not satisfied by it.
      due_ms = Number.POSITIVE_INFINITY;
      const wait_ms = await beat();
      due_ms = clock.monotonicMs() + wait_ms;
      await rest.rest(wait_ms);
    }
  };
  report.onChange(rest.wake);
  return {
    async beat() {
      await beat();
    },
    sooner(seconds) {
      // The server asks the whole fleet at once, so each agent picks a random moment.
      const wait_ms = Math.random() * clampInterval(seconds) * 1000;
      if (clock.monotonicMs() + wait_ms >= due_ms) return;
      due_ms = clock.monotonicMs() + wait_ms;
      clock.after(wait_ms, rest.wake);
    },
    done: run(),
  };
}
