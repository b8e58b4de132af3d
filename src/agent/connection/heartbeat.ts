/** Beats at the interval that the server last assigned; a changed claim is told at once; failures are retried sooner. */
import { backoff, jittered } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import type { Claims } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import { keepKeys } from '../tasks/task-keys/accept.ts';
import type { Timing } from '../timing.ts';
import { describeFailure } from './call-failure.ts';
import type { ControlPlane } from './control-plane.ts';
import type { BeatReply } from './replies.ts';

export interface HeartbeatParts {
  clock: Clock;
  server: ControlPlane;
  claims: Claims;
  state: StateFile;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  onReply(reply: BeatReply): void;
}

export interface HeartbeatLoop {
  /** Beats now, and resolves when that beat was answered or failed. */
  beat(): Promise<void>;
  /** The server would like to hear us within this time, and cannot wait until the next beat to say so. */
  sooner(seconds: number): void;
  done: Promise<void>;
}

/** An interval that a server could mean; anything else would flood it or fall silent. */
const sane = (seconds: number) => Math.min(3600, Math.max(0.05, seconds));

/**
 * Retries are at most this far apart, or a third of the interval where that is longer: a small fleet is heard again within
 * seconds of an outage, and a large one, which has long intervals, does not come back all at once.
 */
const least_cap_ms = 4_000;

/** A released machine that is free again must not idle until its next regular beat before it works again. */
const whileCleaningSeconds = 1;
const nextSeconds = ({ node_status, heartbeat_interval_seconds }: BeatReply) =>
  node_status === 'cleaning' ? Math.min(whileCleaningSeconds, heartbeat_interval_seconds) : heartbeat_interval_seconds;

export function heartbeatLoop(parts: HeartbeatParts): HeartbeatLoop {
  const { clock, server, claims, state, log, timing, signal, onReply } = parts;
  const rest = waker(clock, signal);
  const pauses = backoff(timing.beat_retry);
  /** Whoever is heard again must not come later than it would have, had all been well. */
  let told_ms = Number.POSITIVE_INFINITY;

  /** How long to wait until the next one. */
  const beat = async (): Promise<number> => {
    const answer = await server.heartbeat(claims.current(), signal);
    if (answer.ok) {
      if (pauses.tries() > 0) log.info('heartbeats are answered again', { failed_beats: pauses.tries() });
      pauses.reset();
      if (answer.body.task_keys) keepKeys(state, { task_keys: answer.body.task_keys }, log);
      onReply(answer.body);
      told_ms = sane(nextSeconds(answer.body)) * 1000;
      return jittered(told_ms);
    }
    if (signal.aborted) return 0;
    // It was heard, and the server has too much to hear: nothing failed, and the next one is due when it says.
    const { code, retry_after_seconds } = answer.failure;
    if (code === 'beats_slow_down' && retry_after_seconds !== null) {
      pauses.reset();
      return sane(retry_after_seconds) * 1000;
    }
    const cap_ms = Math.max(least_cap_ms, told_ms / 3);
    // Waiting in vain for the answer was pause enough, unless the fleet is large.
    const hasWaited = code === 'no_answer' && cap_ms === least_cap_ms;
    const next_ms = pauses.nextMs();
    const pause_ms = Math.min(hasWaited ? timing.beat_retry.first_ms : next_ms, told_ms, cap_ms);
    const retry_ms = Math.max(pause_ms, (answer.failure.retry_after_seconds ?? 0) * 1000);
    if (pauses.tries() === 1) log.warn('a heartbeat failed', { failure: describeFailure(answer.failure) });
    return retry_ms;
  };

  let due_ms = Number.POSITIVE_INFINITY;
  const run = async () => {
    while (!signal.aborted) {
      // What is asked for while a beat is under way is not met by it.
      due_ms = Number.POSITIVE_INFINITY;
      const wait_ms = await beat();
      due_ms = clock.monotonicMs() + wait_ms;
      await rest.rest(wait_ms);
    }
  };
  claims.onChange(rest.wake);
  return {
    async beat() {
      await beat();
    },
    sooner(seconds) {
      // All of a fleet are told at once, so each comes at a moment of its own.
      const wait_ms = Math.random() * sane(seconds) * 1000;
      if (clock.monotonicMs() + wait_ms >= due_ms) return;
      due_ms = clock.monotonicMs() + wait_ms;
      clock.after(wait_ms, rest.wake);
    },
    done: run(),
  };
}
