/**
 * Makes one HTTP call to the control plane and returns operational errors as values. Retries only
 * if the connection broke. Uses `node:http` because it names errors by layer, and because a process
 * that never loads `fetch` needs less than half the memory.
 */
import {
  type Agent,
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { type Clock, pause } from '../../base/clock.ts';
import { trustedCertificates } from '../../base/network/trusted-certificates.ts';
import { errorCode } from '../state/shape.ts';
import {
  type CallFailure,
  failureOfError,
  failureOfForeignReply,
  failureOfProblem,
  failureOfSilence,
} from './call-failure.ts';
import type { ServerTime } from './server-time.ts';

export interface Call {
  name: string;
  method: 'GET' | 'POST';
  path: string;
  headers: Record<string, string>;
  body?: string | Buffer;
  timeout_ms: number;
  /** Timeout for the answer, counted from when the connection is ready. */
  answer_timeout_ms?: number;
  /** The server answers only when it has something to send, so silence is no sign of a failure. */
  is_poll?: boolean;
  signal?: AbortSignal;
}

export type Answer<T> = { ok: true; status: number; body: T } | { ok: false; failure: CallFailure };

export interface Transport {
  /** `read` returns null for a body that is not the expected reply. */
  call<T>(call: Call, read: (body: unknown) => T | null): Promise<Answer<T>>;
  /**
   * Counts the calls, other than polls, whose first request got no answer, even if a retry got one.
   * A poll that was sent before such a call may be lost too.
   */
  interruptions(): number;
  close(): void;
}

interface Reply {
  status: number;
  date: string | undefined;
  text: string;
}

class TimeoutError extends Error {
  readonly isConnected: boolean;
  readonly after_ms: number;
  constructor(isConnected: boolean, after_ms: number) {
    super('no answer');
    this.isConnected = isConnected;
    this.after_ms = after_ms;
  }
}

/** If no answer came after this time, the network is checked repeatedly until one comes. */
const check_after_ms = 2_500;
const check_every_ms = 2_000;
/** A check over a new TLS connection takes three round trips: 6 s with 2 s of latency. */
const check_timeout_ms = 10_000;
/** How long an earlier check may be answered after a later one: each uses its own connection. */
const overtaken_grace_ms = 1_000;
const healthPath = '/healthz';

/**
 * The network path failed and recovered, so the request is lost. The code makes the caller repeat
 * it, as after a stale connection.
 */
const connectionLostError = () =>
  Object.assign(new Error('the network was interrupted; the request is lost'), { code: 'ECONNRESET' });

const max_reply_bytes = 2 * 1024 * 1024;
const keepAlive = { keepAlive: true, maxSockets: 8, maxFreeSockets: 4 };

export function transport(server_url: string, clock: Clock, time: ServerTime, ca: string | null = null): Transport {
  const isSecure = server_url.startsWith('https:');
  const agent = isSecure ? new HttpsAgent({ ...keepAlive, ca: trustedCertificates(ca) }) : new HttpAgent(keepAlive);
  let interruptions = 0;
  const createRequest = isSecure ? httpsRequest : httpRequest;

  const check = (signal: AbortSignal, events: { onAnswer(): void; onError(): void }) => {
    const options = { agent: false, ca: trustedCertificates(ca), signal };
    const request = createRequest(`${server_url}${healthPath}`, options, (response) => {
      response.resume();
      events.onAnswer();
    });
    const cancel = clock.after(check_timeout_ms, () => request.destroy());
    request.on('close', cancel);
    request.on('error', events.onError);
    request.end();
  };

  /**
   * Aborts the request if the network failed while the request waited, and works again. This is the
   * case if a check is answered after an earlier check failed, or while two earlier checks have no
   * answer. A slow answer alone does not count.
   */
  const watchNetwork = async (request: ClientRequest, requestEnded: AbortSignal) => {
    const openChecks = new Set<number>();
    let firstFailedCheck = Number.POSITIVE_INFINITY;
    const abortRequest = () => request.destroy(connectionLostError());
    await pause(clock, check_after_ms, requestEnded);
    for (let number = 0; !requestEnded.aborted; number++) {
      openChecks.add(number);
      check(requestEnded, {
        onAnswer() {
          openChecks.delete(number);
          if (firstFailedCheck < number) return void abortRequest();
          const isOvertaken = () => [...openChecks].filter((earlier) => earlier < number).length >= 2;
          if (isOvertaken())
            clock.after(overtaken_grace_ms, () => !requestEnded.aborted && isOvertaken() && abortRequest());
        },
        onError() {
          firstFailedCheck = Math.min(firstFailedCheck, number);
        },
      });
      await pause(clock, check_every_ms, requestEnded);
    }
  };

  const exchange = (call: Call) =>
    new Promise<Reply>((resolve, reject) => {
      const { method, headers, signal } = call;
      const request = createRequest(`${server_url}${call.path}`, {
        agent,
        method,
        headers: withLength(call, headers),
        signal,
      });
      let isConnected = false;
      const cancel = clock.after(call.timeout_ms, () =>
        request.destroy(new TimeoutError(isConnected, call.timeout_ms)),
      );
      let cancelAnswer = () => {};
      const startAnswerTimer = () => {
        const { answer_timeout_ms: limit_ms } = call;
        if (limit_ms !== undefined)
          cancelAnswer = clock.after(limit_ms, () => request.destroy(new TimeoutError(true, limit_ms)));
      };
      request.on('socket', (socket) => {
        if (!socket.connecting) {
          isConnected = true;
          return startAnswerTimer();
        }
        socket.once('connect', () => {
          isConnected = true;
        });
        socket.once(isSecure ? 'secureConnect' : 'connect', () => !request.destroyed && startAnswerTimer());
      });
      const requestEnded = new AbortController();
      if (!call.is_poll) void watchNetwork(request, requestEnded.signal);
      request.on('close', () => {
        cancel();
        cancelAnswer();
        requestEnded.abort();
      });
      request.on('error', (error) => reject(error));
      request.on('response', (response) => readReply(request, response).then(resolve, reject));
      request.end(call.body);
    });

  /**
   * Repeats a call once if its connection broke, for example while it was idle. This is safe for
   * every call of the protocol.
   */
  const exchangeWithRetry = async (call: Call): Promise<Reply> => {
    try {
      return await exchange(call);
    } catch (error) {
      if (!call.is_poll && !call.signal?.aborted) interruptions++;
      if (errorCode(error) !== 'ECONNRESET' || call.signal?.aborted) throw error;
      closeIdleSockets(agent);
      return exchange(call);
    }
  };

  return {
    async call(call, read) {
      const sent_ms = clock.monotonicMs();
      let reply: Reply;
      try {
        reply = await exchangeWithRetry(call);
      } catch (error) {
        return { ok: false, failure: failureOf(call, error) };
      }
      time.onDate(reply.date, sent_ms, clock.monotonicMs());
      return answerFrom(call.name, reply, read);
    },
    interruptions: () => interruptions,
    close: () => agent.destroy(),
  };
}

function withLength(call: Call, headers: Record<string, string>): Record<string, string> {
  return call.body === undefined ? headers : { ...headers, 'content-length': String(Buffer.byteLength(call.body)) };
}

function closeIdleSockets(agent: Agent): void {
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

async function readReply(request: ClientRequest, response: IncomingMessage): Promise<Reply> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > max_reply_bytes) request.destroy(new Error('the reply is too large'));
    chunks.push(chunk);
  }
  return {
    status: response.statusCode ?? 0,
    date: response.headers.date,
    text: Buffer.concat(chunks).toString('utf8'),
  };
}

function failureOf(call: Call, error: unknown): CallFailure {
  if (error instanceof TimeoutError) return failureOfSilence(call.name, error.isConnected, error.after_ms / 1000);
  return failureOfError(call.name, error);
}

function answerFrom<T>(call: string, { status, text }: Reply, read: (body: unknown) => T | null): Answer<T> {
  const body = parseJson(text);
  if (status >= 200 && status < 300) {
    const value = read(body);
    if (value !== null) return { ok: true, status, body: value };
  }
  return { ok: false, failure: failureOfProblem(call, status, body) ?? failureOfForeignReply(call, status, text) };
}

/** Invalid JSON reads as undefined, which no reply reader accepts. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * Combines several addresses of one control plane. A call without an answer is repeated at the next
 * address, which is safe for every call of the protocol. The address that answered last is tried
 * first.
 */
export function anyServer(transports: readonly [Transport, ...Transport[]]): Transport {
  let preferred = 0;
  return {
    async call(call, read) {
      for (let tries = 1; ; tries++) {
        const current = preferred;
        const answer = await (transports[current] ?? transports[0]).call(call, read);
        if (answer.ok || answer.failure.status !== null || call.signal?.aborted) return answer;
        // Another call may have changed the preferred address meanwhile.
        if (preferred === current) preferred = (current + 1) % transports.length;
        if (tries >= transports.length) return answer;
      }
    },
    interruptions: () => transports.reduce((sum, transport) => sum + transport.interruptions(), 0),
    close() {
      for (const transport of transports) transport.close();
    },
  };
}
