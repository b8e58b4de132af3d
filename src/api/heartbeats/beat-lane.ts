/**
 * A shorter way for the one request that outnumbers all others: a plain beat of an agent that is known. It stands before the
 * framework, asks the same checks, and answers only what they let pass and what changes nothing. Whatever is unusual in any
 * way goes the ordinary way as if nobody had looked at it, so that every refusal and every change is made in one place.
 * Why, and what it saves: docs/decisions/0018-heartbeat-fast-path.md.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { CorrelationId } from '../../base/ids.ts';
import { randomHex } from '../../base/random-hex.ts';
import { traceparentOf } from '../../base/telemetry/trace.ts';
import { Heartbeat, type HeartbeatReply } from '../../contract/agent/agent.ts';
import type { ApiProblem } from '../../contract/errors/errors.ts';
import { problemBody } from '../../contract/errors/problem-body.ts';
import { routes } from '../../contract/routes.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { bearerOf, checkOrigin } from '../http/auth.ts';
import { problemType } from '../http/replies/problem-reply.ts';
import { everyReply } from '../http/replies/reply-headers.ts';
import { compileCheck } from '../http/validation.ts';
import { markIdentified } from '../limits/held/connections.ts';
import type { ApiServices } from '../services.ts';
import { shedOf, takeAtOnce } from './accept-beat.ts';

const { method, path } = routes['agent-heartbeat'];
const checkBeat = compileCheck(Heartbeat, 'body') as (value: unknown) => Heartbeat;
/** Every beat of ours is much shorter. */
const mostBytes = 4096;
const mostHosts = 100;
const sameForAll = Object.entries(everyReply).flat();
const json = 'application/json; charset=utf-8';
const readable = new Set(['application/json', json]);
const usualScheme = 'Bearer ';
const traceBytes = 16;
const spanBytes = 8;

/** What was read before it was found to be unusual. */
const readBefore = new WeakMap<IncomingMessage, Buffer>();

/** Gives the ordinary way the body that was already read. */
export async function readAgain(request: FastifyRequest, _: unknown, payload: NodeJS.ReadableStream) {
  const bytes = readBefore.get(request.raw);
  if (bytes === undefined) return payload as never;
  const again = new Readable({ read() {} });
  again.push(bytes);
  again.push(null);
  return again as never;
}

/** Undefined where the headers ask for anything but the usual. */
function bodyLength({ headers }: IncomingMessage): number | undefined {
  if (headers['transfer-encoding'] !== undefined || headers.origin !== undefined) return undefined;
  // Whoever follows a request wants to find it again, in traces and in logs.
  if (headers.traceparent !== undefined || headers['x-correlation-id'] !== undefined) return undefined;
  const type = headers['content-type'];
  const length = Number(headers['content-length'] ?? 0);
  if (type === undefined) return length === 0 ? 0 : undefined;
  return readable.has(type) && length <= mostBytes ? length : undefined;
}

interface Written {
  status: number;
  type: string;
  body: string;
  /** Our own words need one byte a letter, which the system then need not find out. */
  encoding: 'latin1' | 'utf8';
  more: readonly string[];
}

/** The ids of a trace and of its span, drawn together. */
function newIds(): { trace_id: CorrelationId; span_id: string } {
  const drawn = randomHex(traceBytes + spanBytes);
  return { trace_id: drawn.slice(0, 2 * traceBytes) as CorrelationId, span_id: drawn.slice(2 * traceBytes) };
}

function write(response: ServerResponse, reply: HeartbeatReply, shed: ApiProblem | undefined): void {
  const { trace_id, span_id } = newIds();
  const headers = ['x-correlation-id', trace_id, 'traceparent', traceparentOf({ trace_id, span_id, sampled: true })];
  const { status, type, body, encoding, more } = shed ? putOff(shed, trace_id) : taken(reply);
  const length = String(Buffer.byteLength(body, encoding));
  headers.push(...sameForAll, ...more, 'content-type', type, 'content-length', length);
  response.writeHead(status, headers);
  response.end(body, encoding);
}

const nothingMore: readonly string[] = [];
const taken = ({ node_status, heartbeat_interval_seconds, tasks_waiting }: HeartbeatReply): Written => ({
  status: 200,
  type: json,
  body: `{"node_status":"${node_status}","heartbeat_interval_seconds":${heartbeat_interval_seconds},"tasks_waiting":${tasks_waiting}}`,
  encoding: 'latin1',
  more: nothingMore,
});

function putOff(problem: ApiProblem, id: CorrelationId): Written {
  const body = problemBody(problem, id);
  const more = ['retry-after', String(Math.ceil(body.retry_after_seconds ?? 0))];
  return { status: body.status, type: problemType, body: JSON.stringify(body), encoding: 'utf8', more };
}

/** What was said before and found right, by its text: an agent says one of a few things for as long as it lives. */
const saidBefore = new Map<string, Heartbeat>();
const mostSaid = 1_000;
const longestSaid = 200;

function readBeat(text: string): Heartbeat {
  const known = saidBefore.get(text);
  if (known) return known;
  const beat = Object.freeze(text === '' ? {} : checkBeat(JSON.parse(text)));
  if (text.length > longestSaid) return beat;
  if (saidBefore.size >= mostSaid) saidBefore.clear();
  saidBefore.set(text, beat);
  return beat;
}

/** Undefined for what the ordinary way has to answer; nothing was done with it then. */
function answer(session: AgentSession, text: string, services: ApiServices): HeartbeatReply | undefined {
  try {
    return takeAtOnce(session, readBeat(text), services);
  } catch {
    // The ordinary way meets the same fault, and tells of it.
    return undefined;
  }
}

function sessionOf(request: IncomingMessage, services: ApiServices): AgentSession | undefined {
  const { authorization } = request.headers;
  // What stands there is looked for as it is: what is no credential is none of those that are known.
  const credential = authorization?.startsWith(usualScheme)
    ? authorization.slice(usualScheme.length)
    : bearerOf(request);
  const session = credential ? services.sessions.known(credential) : undefined;
  if (session?.fence.kind !== 'none') return undefined;
  return session.expires_seconds !== 0 && services.credential_age.isExpired(session.expires_seconds)
    ? undefined
    : session;
}

/** The same few names are used all the time; those that once passed are known by heart. */
function hostCheck(services: ApiServices): (request: IncomingMessage) => boolean {
  const passed = new Set<string>();
  return (request) => {
    const { host, 'x-forwarded-host': forwarded } = request.headers;
    if (host !== undefined && forwarded === undefined && passed.has(host)) return true;
    try {
      checkOrigin(request, services);
    } catch {
      return false;
    }
    if (host !== undefined && forwarded === undefined && passed.size < mostHosts) passed.add(host);
    return true;
  };
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

export function openBeatLane(server: Server, services: ApiServices, isClosing: () => boolean): void {
  const [ordinary] = server.listeners('request') as Listener[];
  if (!ordinary) throw new Error('the server listens to nobody');

  const isHere = hostCheck(services);
  const take: Listener = (request, response) => {
    if (request.url !== path || request.method !== method || isClosing()) return ordinary(request, response);
    // Each request is told of in the log then, which the ordinary way does.
    if (services.log.isLevelEnabled('debug')) return ordinary(request, response);
    const length = bodyLength(request);
    if (length === undefined || !isHere(request)) return ordinary(request, response);
    const session = sessionOf(request, services);
    if (!session) return ordinary(request, response);
    markIdentified(request.socket);
    let bytes: Buffer | undefined;
    const finish = () => {
      // Looked at again: whoever waits with the rest of its beat may have been fenced meanwhile.
      const holdMs = services.rates.beatHoldMs(session, services.clock.nowMs());
      const reply = session.is_outdated ? undefined : answer(session, bytes?.toString() ?? '', services);
      if (reply) {
        const send = () => write(response, reply, shedOf(reply, services));
        return holdMs === 0 ? send() : void services.clock.after(holdMs, send);
      }
      if (bytes) readBefore.set(request, bytes);
      ordinary(request, response);
    };
    if (length === 0) return finish();
    request.on('data', (chunk: Buffer) => {
      bytes = bytes ? Buffer.concat([bytes, chunk]) : chunk;
    });
    request.on('end', finish);
  };
  server.removeListener('request', ordinary);
  server.on('request', take);
}
