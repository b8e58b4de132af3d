/**
 * The agent's own intervals and timeouts that a test can replace. Others are beside their code.
 * The server assigns the heartbeat interval, leases and deadlines.
 */
import type { BackoffLimits } from '../base/backoff.ts';

export interface Timing {
  /** How long a command must run to count as ready. */
  ready_after_ms: number;
  register_retry: BackoffLimits;
  rotate_retry: BackoffLimits;
  beat_retry: BackoffLimits;
  ship_retry: BackoffLimits;
  task_retry: BackoffLimits;
  stream_retry: BackoffLimits;
  /** If a stream was open for this long, the backoff before the next stream starts over. */
  stream_steady_ms: number;
  /** After a server stops, agents reconnect at random moments within this time. */
  stream_return_ms: number;
  /** Log lines that are written within this time are sent together. */
  log_batch_ms: number;
  call_timeout_ms: number;
  /**
   * Time from the connection to the answer of a heartbeat. The server answers from memory, so a
   * later answer is assumed to be lost.
   */
  beat_answer_ms: number;
  /**
   * How long a poll may stay open after an answered heartbeat, if another call failed since the
   * poll was sent.
   */
  lost_poll_ms: number;
  task_wait_seconds: number;
  command_restart: BackoffLimits;
  /** This many exits within the window are a crash loop. A window without an exit ends it. */
  crash_loop: { exits: number; window_ms: number };
  /** Time between SIGTERM and SIGKILL. */
  stop_grace_ms: number;
  /** Time limit for the last heartbeat, and again for shipping the last log lines. */
  farewell_ms: number;
  prerequisite_timeout_ms: number;
  /** Pause between checks of the prerequisites while one is missing. */
  prerequisite_again_ms: number;
  /** Time limit for asking the server's time. Without it, boot stages have no start times. */
  ask_time_timeout_ms: number;
  /**
   * How long the server must answer `credential_unknown` before the agent acts on it. The server
   * may be restoring its database.
   */
  credential_doubt_ms: number;
  /** Pauses between calls to a server that does not know the credential. */
  unknown_credential_retry: BackoffLimits;
}

export const defaultTiming: Timing = {
  ready_after_ms: 250,
  // An operation waits for the registration and for tasks, so both are retried within 4 s.
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
  unknown_credential_retry: { first_ms: 10_000, max_ms: 300_000 },
};
