/**
 * One HTTP exchange with the control plane. Operational errors are values. Decides nothing, and
 * retries only on a kept-alive connection that the server had closed.
 * Uses `node:http` because it names errors by layer, and because a process that never loads `fetch`
 * needs less than half the memory.
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
import { trustedWith } from '../../base/network/trusted-certificates.ts';
import { errorCode } from '../state/shape.ts';
import {
  type CallFailure,
  failureOfError,
  failureOfProblem,
  failureOfSilence,
  failureOfStranger,
} from './call-failure.ts';
import type { ServerTime } from './server-time.ts';

export interface Call {
  name: string;
  method: 'GET' | 'POST';
  path: string;
  headers: Record<string, string>;
  body?: string | Buffer;
  timeout_ms: number;
  /** The timeout for the answer alone, counted from when the connection is ready. */
  answer_timeout_ms?: number;
  /** The server answers only when it has something to send, so silence means nothing. */
  is_poll?: boolean;
  signal?: AbortSignal;
}

export type Answer<T> = { ok: true; status: number; body: T } | { ok: false; failure: CallFailure };

export interface Transport {
  /** `read` returns null for a body that is not the expected reply. */
  call<T>(call: Call, read: (body: unknown) => T | null): Promise<Answer<T>>;
  /**
   * Counts calls, polls aside, that got no answer. A poll sent before such a call may be lost too.
   */
  interruptions(): number;
  close(): void;
}

interface Reply {
  status: number;
  date: string | undefined;
  text: string;
}

class Silence extends Error {
  readonly connected: boolean;
  readonly after_ms: number;
  constructor(connected: boolean, after_ms: number) {
    super('no answer');
    this.connected = connected;
    this.after_ms = after_ms;
  }
}

/** After this much silence the connection is checked, repeatedly, until the call is answered. */
const check_after_ms = 2_500;
const check_every_ms = 2_000;
/** A check over a new TLS connection takes three round trips: 6 s with 2 s of latency. */
const check_timeout_ms = 10_000;
/** Connections are not ordered: an earlier check may be answered a little after a later one. */
const overtaken_ms = 1_000;
const healthPath = '/healthz';

/**
 * Requests in flight on a network path that failed and recovered are lost; repeat them, as on a
 * stale connection.
 */
const connectionLost = () =>
  Object.assign(new Error('the line was interrupted; what was sent is lost'), { code: 'ECONNRESET' });

const max_reply_bytes = 2 * 1024 * 1024;
const keepAlive = { keepAlive: true, maxSockets: 8, maxFreeSockets: 4 };

export function transport(server_url: string, clock: Clock, time: ServerTime, ca: string | null = null): Transport {
  const secure = server_url.startsWith('https:');
  const agent = secure ? new HttpsAgent({ ...keepAlive, ca: trustedWith(ca) }) : new HttpAgent(keepAlive);
  let interruptions = 0;
  const open = secure ? httpsRequest : httpRequest;

  const check = (signal: AbortSignal, events: { answered(): void; broken(): void }) => {
    const options = { agent: false, ca: trustedWith(ca), signal };
    const request = open(`${server_url}${healthPath}`, options, (response) => {
      response.resume();
      events.answered();
    });
    const cancel = clock.after(check_timeout_ms, () => request.destroy());
    request.on('close', cancel);
    request.on('error', events.broken);
    request.end();
  };

  /**
   * Aborts the request if the network failed while it waited and works again: a check is answered
   * although an earlier one failed to connect, or two earlier ones are unanswered. A slow answer
   * alone does not count.
   */
  const watchLine = async (request: ClientRequest, over: AbortSignal) => {
    const unanswered = new Set<number>();
    let brokenBefore = Number.POSITIVE_INFINITY;
    const end = () => request.destroy(connectionLost());
    await pause(clock, check_after_ms, over);
    for (let number = 0; !over.aborted; number++) {
      unanswered.add(number);
      check(over, {
        answered() {
          unanswered.delete(number);
          if (brokenBefore < number) return void end();
          const isOvertaken = () => [...unanswered].filter((earlier) => earlier < number).length >= 2;
          if (isOvertaken()) clock.after(overtaken_ms, () => !over.aborted && isOvertaken() && end());
        },
        broken() {
          brokenBefore = Math.min(brokenBefore, number);
        },
      });
      await pause(clock, check_every_ms, over);
    }
  };

  const exchange = (call: Call) =>
    new Promise<Reply>((resolve, reject) => {
      const { method, headers, signal } = call;
      const request = open(`${server_url}${call.path}`, { agent, method, headers: withLength(call, headers), signal });
      let connected = false;
      const cancel = clock.after(call.timeout_ms, () => request.destroy(new Silence(connected, call.timeout_ms)));
      let cancelAnswer = () => {};
      const awaitAnswer = () => {
        const { answer_timeout_ms: limit_ms } = call;
        if (limit_ms !== undefined)
          cancelAnswer = clock.after(limit_ms, () => request.destroy(new Silence(true, limit_ms)));
      };
      request.on('socket', (socket) => {
        if (!socket.connecting) {
          connected = true;
          return awaitAnswer();
        }
        socket.once('connect', () => {
          connected = true;
        });
        socket.once(secure ? 'secureConnect' : 'connect', () => !request.destroyed && awaitAnswer());
      });
      const over = new AbortController();
      if (!call.is_poll) void watchLine(request, over.signal);
      request.on('close', () => {
        cancel();
        cancelAnswer();
        over.abort();
      });
      request.on('error', (error) => reject(error));
      request.on('response', (response) => readReply(request, response).then(resolve, reject));
      request.end(call.body);
    });

  /**
   * Every call of the protocol may be repeated, so a connection that died while idle costs a retry,
   * not a failure.
   */
  const exchangeAgainIfStale = async (call: Call): Promise<Reply> => {
    try {
      return await exchange(call);
    } catch (error) {
      if (!call.is_poll && !call.signal?.aborted) interruptions++;
      if (errorCode(error) !== 'ECONNRESET' || call.signal?.aborted) throw error;
      dropIdle(agent);
      return exchange(call);
    }
  };

  return {
    async call(call, read) {
      const sent_ms = clock.monotonicMs();
      let reply: Reply;
      try {
        reply = await exchangeAgainIfStale(call);
      } catch (error) {
        return { ok: false, failure: failureOf(call, error) };
      }
      time.heard(reply.date, sent_ms, clock.monotonicMs());
      return answerFrom(call.name, reply, read);
    },
    interruptions: () => interruptions,
    close: () => agent.destroy(),
  };
}

function withLength(call: Call, headers: Record<string, string>): Record<string, string> {
  return call.body === undefined ? headers : { ...headers, 'content-length': String(Buffer.byteLength(call.body)) };
}

function dropIdle(agent: Agent): void {
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
  if (error instanceof Silence) return failureOfSilence(call.name, error.connected, error.after_ms / 1000);
  return failureOfError(call.name, error);
}

function answerFrom<T>(call: string, { status, text }: Reply, read: (body: unknown) => T | null): Answer<T> {
  const body = parsed(text);
  if (status >= 200 && status < 300) {
    const value = read(body);
    if (value !== null) return { ok: true, status, body: value };
  }
  return { ok: false, failure: failureOfProblem(call, status, body) ?? failureOfStranger(call, status, text) };
}

/** Invalid JSON reads as undefined, which no reply reader accepts. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * Treats several addresses of one control plane as one transport: a call without an answer is
 * repeated at the next address, which is safe for every call of the protocol. The address that
 * answered last is tried first.
 */
export function anyServer(transports: readonly [Transport, ...Transport[]]): Transport {
  let preferred = 0;
  return {
    async call(call, read) {
      for (let tries = 1; ; tries++) {
        const current = preferred;
        const answer = await (transports[current] ?? transports[0]).call(call, read);
        if (answer.ok || answer.failure.status !== null || call.signal?.aborted) return answer;
        // Another call may have moved on meanwhile.
        if (preferred === current) preferred = (current + 1) % transports.length;
        if (tries >= transports.length) return answer;
      }
    },
    interruptions: () => transports.reduce((sum, each) => sum + each.interruptions(), 0),
    close() {
      for (const transport of transports) transport.close();
    },
  };
}
