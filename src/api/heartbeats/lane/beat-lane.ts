/**
 * A fast path before Fastify for a plain heartbeat of a known agent. It applies the same checks and
 * answers only a heartbeat that changes nothing: with 200, or with 429 in an overload. Everything
 * else goes to Fastify untouched. Why: docs/decisions/0018-heartbeat-fast-path.md.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { newCorrelationId } from '../../../base/ids.ts';
import { newSpanId, traceparentOf } from '../../../base/telemetry/trace.ts';
import { Heartbeat, type HeartbeatReply } from '../../../contract/agent/agent.ts';
import type { ApiProblem } from '../../../contract/errors/errors.ts';
import { problemBody } from '../../../contract/errors/problem-body.ts';
import { routes } from '../../../contract/routes.ts';
import type { AgentSession } from '../../../store/agents/sessions/agent-sessions.ts';
import { bearerOf, checkOrigin } from '../../http/auth.ts';
import { problemType } from '../../http/replies/problem-reply.ts';
import { commonHeaders } from '../../http/replies/reply-headers.ts';
import { compileCheck } from '../../http/validation.ts';
import { markIdentified } from '../../limits/held/connections.ts';
import type { ApiServices } from '../../services.ts';
import { acceptUnchanged, shedIfOverloaded } from '../accept-beat.ts';

const { method, path } = routes['agent-heartbeat'];
const checkBeat = compileCheck(Heartbeat, 'body') as (value: unknown) => Heartbeat;
/** Our agents' heartbeats are much shorter. */
const maxBytes = 4096;
const maxHosts = 100;
const json = 'application/json; charset=utf-8';
/** Ends without the value of `content-length`, which each reply adds. */
const jsonHeaders = [...Object.entries(commonHeaders).flat(), 'content-type', json, 'content-length'];
const readableTypes = new Set(['application/json', json]);
const usualScheme = 'Bearer ';

/** Bodies that were read before the request was handed to Fastify. */
const bodiesRead = new WeakMap<IncomingMessage, Buffer>();

/** Gives Fastify the body that was already read. */
export async function replayBody(request: FastifyRequest, _: unknown, payload: NodeJS.ReadableStream) {
  const bytes = bodiesRead.get(request.raw);
  if (bytes === undefined) return payload as never;
  const replay = new Readable({ read() {} });
  replay.push(bytes);
  replay.push(null);
  return replay as never;
}

/** Undefined if the headers are unusual in any way. */
function readBodyLength({ headers }: IncomingMessage): number | undefined {
  if (headers['transfer-encoding'] !== undefined || headers.origin !== undefined) return undefined;
  // A traced request must appear in traces and logs.
  if (headers.traceparent !== undefined || headers['x-correlation-id'] !== undefined) return undefined;
  const type = headers['content-type'];
  const length = Number(headers['content-length'] ?? 0);
  if (type === undefined) return length === 0 ? 0 : undefined;
  return readableTypes.has(type) && length <= maxBytes ? length : undefined;
}

/**
 * Sends no correlation id, because a plain heartbeat leaves no log line, span or evidence in which
 * to look for it.
 */
function sendAccepted(response: ServerResponse, reply: HeartbeatReply): void {
  const { node_status, heartbeat_interval_seconds, tasks_waiting } = reply;
  const body = `{"node_status":"${node_status}","heartbeat_interval_seconds":${heartbeat_interval_seconds},"tasks_waiting":${tasks_waiting}}`;
  response.writeHead(200, [...jsonHeaders, String(body.length)]);
  // The body is ASCII; latin1 spares Node the check.
  response.end(body, 'latin1');
}

function sendShed(response: ServerResponse, shed: ApiProblem): void {
  const id = newCorrelationId();
  const problem = problemBody(shed, id);
  response.writeHead(problem.status, {
    ...commonHeaders,
    'x-correlation-id': id,
    traceparent: traceparentOf({ trace_id: id, span_id: newSpanId(), sampled: true }),
    'retry-after': String(Math.ceil(problem.retry_after_seconds ?? 0)),
    'content-type': problemType,
  });
  response.end(JSON.stringify(problem));
}

/** Validated heartbeats by their text: an agent sends one of a few texts all its life. */
const parsedBeats = new Map<string, Heartbeat>();
const maxParsedBeats = 1_000;
const maxCachedLength = 200;

function readBeat(text: string): Heartbeat {
  const known = parsedBeats.get(text);
  if (known) return known;
  const beat = Object.freeze(text === '' ? {} : checkBeat(JSON.parse(text)));
  if (text.length > maxCachedLength) return beat;
  if (parsedBeats.size >= maxParsedBeats) parsedBeats.clear();
  parsedBeats.set(text, beat);
  return beat;
}

/** Undefined if Fastify has to answer; the heartbeat was not processed then. */
function tryAccept(session: AgentSession, text: string, services: ApiServices): HeartbeatReply | undefined {
  try {
    return acceptUnchanged(session, readBeat(text), services);
  } catch {
    // Fastify finds the same error and reports it.
    return undefined;
  }
}

function sessionOf(request: IncomingMessage, services: ApiServices): AgentSession | undefined {
  const { authorization } = request.headers;
  // No syntax check: an invalid credential is not among the known ones.
  const credential = authorization?.startsWith(usualScheme)
    ? authorization.slice(usualScheme.length)
    : bearerOf(request);
  const session = credential ? services.sessions.getCached(credential) : undefined;
  if (session?.fence.kind !== 'none') return undefined;
  return session.expires_seconds !== 0 && services.credential_age.isExpired(session.expires_seconds)
    ? undefined
    : session;
}

/** Caches host names that passed the check; there are only a few. */
function createHostCheck(services: ApiServices): (request: IncomingMessage) => boolean {
  const passed = new Set<string>();
  return (request) => {
    const { host, 'x-forwarded-host': forwarded } = request.headers;
    if (host !== undefined && forwarded === undefined && passed.has(host)) return true;
    try {
      checkOrigin(request, services);
    } catch {
      return false;
    }
    if (host !== undefined && forwarded === undefined && passed.size < maxHosts) passed.add(host);
    return true;
  };
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

export function openBeatLane(server: Server, services: ApiServices, isClosing: () => boolean): void {
  const [fastify] = server.listeners('request') as Listener[];
  if (!fastify) throw new Error('the server has no request listener');

  const isOwnHost = createHostCheck(services);
  const handle: Listener = (request, response) => {
    if (request.url !== path || request.method !== method || isClosing()) return fastify(request, response);
    // At debug level, fall through so that Fastify logs the request.
    if (services.log.isLevelEnabled('debug')) return fastify(request, response);
    const length = readBodyLength(request);
    if (length === undefined || !isOwnHost(request)) return fastify(request, response);
    const session = sessionOf(request, services);
    if (!session) return fastify(request, response);
    markIdentified(request.socket);
    let bytes: Buffer | undefined;
    const finish = () => {
      const delayMs = services.rates.beatDelayMs(session, services.clock.nowMs());
      // Check again: the instance may have been fenced while the body arrived.
      const reply = session.is_outdated ? undefined : tryAccept(session, bytes?.toString() ?? '', services);
      if (reply) {
        const send = () => {
          const shed = shedIfOverloaded(reply, services);
          if (shed) sendShed(response, shed);
          else sendAccepted(response, reply);
        };
        return delayMs === 0 ? send() : void services.clock.after(delayMs, send);
      }
      if (bytes) bodiesRead.set(request, bytes);
      fastify(request, response);
    };
    if (length === 0) return finish();
    request.on('data', (chunk: Buffer) => {
      bytes = bytes ? Buffer.concat([bytes, chunk]) : chunk;
    });
    request.on('end', finish);
  };
  server.removeListener('request', fastify);
  server.on('request', handle);
}
