/**
 * Keeps a stream to the control plane open if the agent was configured to. While it is open,
 * heartbeats and tasks use it; otherwise they use HTTP. Reconnects with growing, random pauses.
 */
import { backoff } from '../../base/backoff.ts';
import { pause } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import type { Timing } from '../timing.ts';
import { describeFailure } from './call-failure.ts';
import type { ControlPlane, ControlPlaneParts } from './control-plane.ts';
import { openStreamConnection, type StreamConnection, type StreamConnectionParts } from './stream-connection.ts';

export interface StreamParts extends Omit<StreamConnectionParts, 'credential' | 'timeout_ms' | 'onInterval'> {
  server_urls: readonly [string, ...string[]];
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  credential(): string | null;
  onAnswer: ControlPlaneParts['onAnswer'];
  onInterval(seconds: number): void;
  /** Called when it is open; a heartbeat then shows that it works in both directions. */
  onOpen(): void;
}

export interface Stream {
  /** The control plane, by stream while it is open. */
  server: ControlPlane;
  done: Promise<void>;
}

/** Close code of a stopping server, which its whole fleet receives at once. */
const server_stops = 1001;

export function keepStream(parts: StreamParts, http: ControlPlane): Stream {
  const { clock, log, timing, signal, server_urls } = parts;
  let connection: StreamConnection | null = null;

  /** Returns how long to wait until the next try. */
  const connectOnce = async (url: string, pauses: ReturnType<typeof backoff>): Promise<number> => {
    const credential = parts.credential();
    if (credential === null) return pauses.nextMs();
    const opened = await openStreamConnection(url, { ...parts, credential, timeout_ms: timing.call_timeout_ms });
    if (!opened.ok) {
      const { failure } = opened;
      if (!signal.aborted) parts.onFailure(failure);
      if (pauses.tries() === 0)
        log.warn('no stream; beats and tasks go by HTTP', { failure: describeFailure(failure) });
      return Math.max(pauses.nextMs(), (failure.retry_after_seconds ?? 0) * 1000);
    }
    log.info('the stream is open');
    connection = opened.connection;
    if (signal.aborted) connection.close();
    else parts.onOpen();
    const begun_ms = clock.monotonicMs();
    const { close_code, reason } = await connection.ended;
    connection = null;
    if (!signal.aborted) log.warn('the stream ended; beats and tasks go by HTTP', { close_code, reason });
    if (clock.monotonicMs() - begun_ms > timing.stream_steady_ms) pauses.reset();
    return Math.max(pauses.nextMs(), close_code === server_stops ? Math.random() * timing.stream_return_ms : 0);
  };

  const run = async () => {
    const pauses = backoff(timing.stream_retry);
    for (let tries = 0; !signal.aborted; tries++) {
      const url = server_urls[tries % server_urls.length] ?? server_urls[0];
      await pause(clock, await connectOnce(url, pauses), signal);
    }
  };
  signal.addEventListener('abort', () => connection?.close(), { once: true });

  const server: ControlPlane = {
    ...http,
    async heartbeat(beat, given) {
      const answer = (await connection?.beat(beat)) ?? null;
      if (answer === null) return http.heartbeat(beat, given);
      if (answer.ok) parts.onAnswer('agent-heartbeat');
      else parts.onFailure(answer.failure);
      return answer;
    },
    async nextTask(wait_seconds, given) {
      if (!connection) return http.nextTask(wait_seconds, given);
      return { ok: true, status: 200, body: { task: await connection.nextTask(given) } };
    },
  };
  return { server, done: run() };
}
