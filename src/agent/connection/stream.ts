/**
 * Keeps a stream to the control plane open, if the configuration asks for it. Heartbeats and tasks
 * use the stream while it is open, and HTTP otherwise. Reconnects with growing, random pauses.
 */

import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import { type Backoff, createBackoff } from '../../base/backoff.ts';
import { type Clock, pause } from '../../base/clock.ts';
import { trustedCertificates } from '../../base/network/trusted-certificates.ts';
import type { Heartbeat, SignedTask } from '../../contract/agent/agent.ts';
import type { Log } from '../log.ts';
import { isFields, numberOf } from '../state/shape.ts';
import type { Timing } from '../timing.ts';
import {
  type CallFailure,
  describeFailure,
  failureOfError,
  failureOfForeignReply,
  failureOfProblem,
} from './call-failure.ts';
import type { ControlPlane, ControlPlaneParts } from './control-plane.ts';
import { type BeatReply, readBeatReply, readNextTask } from './replies.ts';
import type { ServerTime } from './server-time.ts';
import type { Answer } from './transport.ts';

interface StreamConnectionParts {
  clock: Clock;
  time: ServerTime;
  ca: string | null;
  credential: string;
  timeout_ms: number;
  /** Called for a failure that the server sends without a heartbeat's number. */
  onFailure(failure: CallFailure): void;
  onInterval(seconds: number): void;
}

interface StreamConnection {
  /** Resolves to null if the connection ended before the answer came. */
  beat(beat: Heartbeat): Promise<Answer<BeatReply> | null>;
  /** Resolves to null if the connection ended or the signal aborted before a task came. */
  nextTask(signal: AbortSignal): Promise<SignedTask | null>;
  ended: Promise<{ close_code: number; reason: string }>;
  close(): void;
}

/** A test compares this with the route table. */
export const streamPath = '/v1/agent/stream';
const callName = 'agent-stream';
const max_frame_bytes = 2 * 1024 * 1024;
const max_problem_bytes = 64 * 1024;

async function failureOfResponse(response: IncomingMessage): Promise<CallFailure> {
  let text = '';
  for await (const chunk of response) if (text.length < max_problem_bytes) text += chunk;
  const status = response.statusCode ?? 0;
  return failureOfProblem(callName, status, parseJson(text)) ?? failureOfForeignReply(callName, status, text);
}

/** Invalid JSON reads as undefined, which no frame reader accepts. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * Opens one WebSocket to the control plane. Answers are matched to heartbeats by number; tasks and
 * intervals come at any time. When the socket ends, pending calls resolve to null, and the function
 * does not reconnect.
 */
async function openStreamConnection(
  server_url: string,
  parts: StreamConnectionParts,
): Promise<{ ok: true; connection: StreamConnection } | { ok: false; failure: CallFailure }> {
  const { WebSocket } = await import('ws');
  const sent_ms = parts.clock.monotonicMs();
  const socket = new WebSocket(server_url.replace(/^http/, 'ws') + streamPath, {
    headers: { authorization: `Bearer ${parts.credential}` },
    ca: trustedCertificates(parts.ca),
    perMessageDeflate: false,
    handshakeTimeout: parts.timeout_ms,
    maxPayload: max_frame_bytes,
  });
  return new Promise((resolve) => {
    const fail = (failure: CallFailure) => resolve({ ok: false, failure });
    socket.on('upgrade', ({ headers }) => parts.time.onDate(headers.date, sent_ms, parts.clock.monotonicMs()));
    socket.once('unexpected-response', (request, response) => {
      failureOfResponse(response)
        .catch((error) => failureOfError(callName, error))
        .then(fail)
        .finally(() => request.destroy());
    });
    // After the socket has opened, `close` follows every error and reports it.
    socket.on('error', (error) => fail(failureOfError(callName, error)));
    socket.once('open', () => resolve({ ok: true, connection: createConnection(socket, parts) }));
  });
}

function createConnection(socket: WebSocket, { clock, timeout_ms, onFailure, onInterval }: StreamConnectionParts) {
  const pendingBeats = new Map<number, (answer: Answer<BeatReply> | null) => void>();
  let onTask: ((task: SignedTask | null) => void) | null = null;
  let sendsIdle = true;
  let seq = 0;

  const send = (frame: object) => socket.send(JSON.stringify(frame));
  const requestTask = () => send(sendsIdle ? { tasks: true, idle: true } : { tasks: true });
  const resolveBeat = (number: number | null, answer: Answer<BeatReply> | null) => {
    if (number === null) return;
    pendingBeats.get(number)?.(answer);
    pendingBeats.delete(number);
  };
  const onFrame = (frame: unknown) => {
    if (!isFields(frame)) return;
    const number = numberOf(frame.seq);
    const status = isFields(frame.problem) ? numberOf(frame.problem.status) : null;
    const failure = status === null ? null : failureOfProblem('agent-heartbeat', status, frame.problem);
    // A server of an earlier version refuses `idle`. Answers to heartbeats have a number, so this
    // one answers the request for tasks.
    if (failure?.code === 'invalid_request' && number === null && sendsIdle) {
      sendsIdle = false;
      if (onTask) requestTask();
      return;
    }
    if (failure) return number === null ? onFailure(failure) : resolveBeat(number, { ok: false, failure });
    const reply = readBeatReply(frame);
    if (reply) return resolveBeat(number, { ok: true, status: 200, body: reply });
    const next = readNextTask(frame);
    const seconds = numberOf(frame.heartbeat_interval_seconds);
    if (next) onTask?.(next.task);
    else if (seconds !== null) onInterval(seconds);
  };

  const ended = new Promise<{ close_code: number; reason: string }>((resolve) => {
    socket.on('close', (close_code, reason) => {
      for (const number of [...pendingBeats.keys()]) resolveBeat(number, null);
      onTask?.(null);
      resolve({ close_code, reason: String(reason) });
    });
  });
  socket.on('message', (data) => onFrame(parseJson(String(data))));

  const connection: StreamConnection = {
    ended,
    close: () => socket.close(1000),
    beat(beat) {
      if (socket.readyState !== socket.OPEN) return Promise.resolve(null);
      const number = ++seq;
      return new Promise((resolve) => {
        // Without an answer the connection is dead, so it is terminated.
        const cancel = clock.after(timeout_ms, () => socket.terminate());
        pendingBeats.set(number, (answer) => {
          cancel();
          resolve(answer);
        });
        send({ seq: number, ...beat });
      });
    },
    nextTask(signal) {
      if (socket.readyState !== socket.OPEN || signal.aborted) return Promise.resolve(null);
      return new Promise((resolve) => {
        const finish = (task: SignedTask | null) => {
          onTask = null;
          signal.removeEventListener('abort', onAbort);
          resolve(task);
        };
        const onAbort = () => finish(null);
        signal.addEventListener('abort', onAbort, { once: true });
        onTask = finish;
        requestTask();
      });
    },
  };
  return connection;
}

export interface StreamParts
  extends Omit<StreamConnectionParts, 'credential' | 'timeout_ms' | 'onInterval' | 'onFailure'> {
  server_urls: readonly [string, ...string[]];
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  credential(): string | null;
  onAnswer: ControlPlaneParts['onAnswer'];
  /** Called for every failure, also of an attempt to open the stream. */
  onFailure: ControlPlaneParts['onFailure'];
  waitForTurn: ControlPlaneParts['waitForTurn'];
  onInterval(seconds: number): void;
  /** Called when the stream is open. A heartbeat should follow, to test both directions. */
  onOpen(): void;
}

export interface Stream {
  /** Makes calls by the stream while it is open, and by HTTP otherwise. */
  server: ControlPlane;
  done: Promise<void>;
}

/** A stopping server closes all streams at once with this code. */
const server_stops_code = 1001;

export function keepStream(parts: StreamParts, http: ControlPlane): Stream {
  const { clock, log, timing, signal, server_urls } = parts;
  let connection: StreamConnection | null = null;

  /** Returns how long to wait until the next try. */
  const connectOnce = async (url: string, pauses: Backoff): Promise<number> => {
    await parts.waitForTurn(signal);
    const credential = parts.credential();
    if (credential === null || signal.aborted) return pauses.nextMs();
    const result = await openStreamConnection(url, { ...parts, credential, timeout_ms: timing.call_timeout_ms });
    if (!result.ok) {
      const { failure } = result;
      if (!signal.aborted) parts.onFailure(failure);
      if (pauses.tries() === 0)
        log.warn('the stream could not be opened; heartbeats and tasks use HTTP', {
          failure: describeFailure(failure),
        });
      // `waitForTurn` spaces the tries, and ends its pause once the credential is known again.
      if (failure.code === 'credential_unknown') pauses.reset();
      return Math.max(pauses.nextMs(), (failure.retry_after_seconds ?? 0) * 1000);
    }
    log.info('the stream is open');
    parts.onAnswer();
    connection = result.connection;
    if (signal.aborted) connection.close();
    else parts.onOpen();
    const opened_ms = clock.monotonicMs();
    const { close_code, reason } = await connection.ended;
    connection = null;
    if (!signal.aborted) log.warn('the stream ended; heartbeats and tasks use HTTP', { close_code, reason });
    if (clock.monotonicMs() - opened_ms > timing.stream_steady_ms) pauses.reset();
    return Math.max(pauses.nextMs(), close_code === server_stops_code ? Math.random() * timing.stream_return_ms : 0);
  };

  const run = async () => {
    const pauses = createBackoff(timing.stream_retry);
    for (let tries = 0; !signal.aborted; tries++) {
      const url = server_urls[tries % server_urls.length] ?? server_urls[0];
      await pause(clock, await connectOnce(url, pauses), signal);
    }
  };
  signal.addEventListener('abort', () => connection?.close(), { once: true });

  const server: ControlPlane = {
    ...http,
    async heartbeat(beat, callSignal) {
      const answer = (await connection?.beat(beat)) ?? null;
      if (answer === null) return http.heartbeat(beat, callSignal);
      if (answer.ok) parts.onAnswer();
      else parts.onFailure(answer.failure);
      return answer;
    },
    async nextTask(wait_seconds, callSignal) {
      if (!connection) return http.nextTask(wait_seconds, callSignal);
      return { ok: true, status: 200, body: { task: await connection.nextTask(callSignal) } };
    },
  };
  return { server, done: run() };
}
