/**
 * All intervals and timeouts that the agent chooses itself. Those that the server assigns
 * (interval, lease, deadline) are not here.
 */
import type { Span } from '../base/backoff.ts';

export interface Timing {
  /** How long a command must run to count as ready. */
  ready_after_ms: number;
  register_retry: Span;
  rotate_retry: Span;
  beat_retry: Span;
  ship_retry: Span;
  task_retry: Span;
  stream_retry: Span;
  /** After a stream was open for this long, the next one is tried without a long pause. */
  stream_steady_ms: number;
  /** Agents reconnect to a stopping server at a random moment within this time. */
  stream_return_ms: number;
  /** Lines that come within this time are sent together. */
  log_batch_ms: number;
  call_timeout_ms: number;
  /**
   * A heartbeat is answered from memory. One without an answer within this time, once connected, is
   * lost.
   */
  beat_answer_ms: number;
  /**
   * How long a poll may stay open after a beat said that tasks wait, if the line was interrupted
   * since it was sent.
   */
  lost_poll_ms: number;
  task_wait_seconds: number;
  command_restart: Span;
  /** So many exits within the window are a crash loop; a window without an exit ends it. */
  crash_loop: { exits: number; window_ms: number };
  /** Between SIGTERM and SIGKILL. */
  stop_grace_ms: number;
  /** For the last heartbeat, and for the last lines, each. */
  farewell_ms: number;
  prerequisite_timeout_ms: number;
  /** Pause between checks of the prerequisites while one is missing. */
  prerequisite_again_ms: number;
  /** For asking the server's time; without an answer the boot stages go without start times. */
  ask_time_timeout_ms: number;
  /**
   * How long `credential_unknown` must persist before it is believed: the server's store may be
   * under restoration.
   */
  credential_doubt_ms: number;
}

export const defaultTiming: Timing = {
  ready_after_ms: 250,
  // A machine waiting to register, or a task waiting to be fetched, delays an operation: retry
  // within 4 s.
  register_retry: { first_ms: 250, max_ms: 4_000 },
  rotate_retry: { first_ms: 1_000, max_ms: 300_000 },
  beat_retry: { first_ms: 500, max_ms: 10_000 },
  ship_retry: { first_ms: 500, max_ms: 15_000 },
  task_retry: { first_ms: 500, max_ms: 4_000 },
  stream_retry: { first_ms: 1_000, max_ms: 300_000 },
  stream_steady_ms: 30_000,
  stream_return_ms: 10_000,
  log_batch_ms: 150,
  // With 2 s of latency a call over a new TLS connection takes three round trips: 6 s.
  call_timeout_ms: 10_000,
  beat_answer_ms: 4_500,
  lost_poll_ms: 1_000,
  task_wait_seconds: 30,
  command_restart: { first_ms: 500, max_ms: 30_000 },
  crash_loop: { exits: 3, window_ms: 60_000 },
  stop_grace_ms: 5_000,
  farewell_ms: 1_500,
  prerequisite_timeout_ms: 60_000,
  prerequisite_again_ms: 5_000,
  ask_time_timeout_ms: 2_000,
  credential_doubt_ms: 20_000,
};
