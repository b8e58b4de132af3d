/** The relay's HTTP listener: batches heartbeats and forwards other agent calls, except streams. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import { Compile } from 'typebox/compile';
import { newCorrelationId } from '../base/ids.ts';
import { Heartbeat } from '../contract/agent/agent.ts';
import { ApiProblem, type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';
import { problemBody } from '../contract/errors/problem-body.ts';
import { agentRoutes } from '../contract/routes/agent.ts';
import { serverRoutes } from '../contract/routes/server.ts';
import { routes } from '../contract/routes.ts';
import { type Batcher, type BeatOutcome, undeliveredDetail } from './batcher.ts';
import type { Upstream } from './upstream.ts';

function send(response: ServerResponse, status: number, type: string, body: object): void {
  if (response.headersSent || response.destroyed) return;
  // Agents read the control plane's time from the Date header, so the relay sends none.
  response.sendDate = false;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(text);
}

function sendProblem(request: IncomingMessage, response: ServerResponse, problem: ApiProblem, more: object = {}): void {
  const correlation_id = String(request.headers['x-correlation-id'] ?? newCorrelationId());
  const body = { ...problemBody(problem, correlation_id), ...more };
  if (body.retry_after_seconds !== undefined && !response.headersSent)
    response.setHeader('retry-after', Math.ceil(body.retry_after_seconds));
  send(response, body.status, 'application/problem+json; charset=utf-8', body);
}

const isKnownCode = (code: string): code is ErrorCode => Object.hasOwn(errorCatalogue, code);

function sendOutcome(request: IncomingMessage, response: ServerResponse, outcome: BeatOutcome): void {
  if ('node_status' in outcome) {
    send(response, 200, 'application/json; charset=utf-8', outcome);
    return;
  }
  const { code, status, detail, ...more } = outcome;
  // A newer control plane may send a code that this relay does not know; its status still applies.
  const knownCode = isKnownCode(code) ? code : 'relay_upstream_away';
  sendProblem(request, response, new ApiProblem(knownCode, { detail, ...more }), { code, status });
}

interface Target {
  path: string;
  /** Includes the question mark; empty if there is no query. */
  search: string;
}

/** A placeholder, so that URL can parse a path. It is never used as a host. */
const anyHost = 'http://relay';

/** Returns null if the URL names another host or cannot be parsed. */
export function targetOf(url: string): Target | null {
  if (!url.startsWith('/') || !URL.canParse(anyHost + url)) return null;
  const { pathname, search } = new URL(anyHost + url);
  return { path: pathname, search };
}

/** The characters of an encoded id. None of them can lead to another path. */
const idPattern = '(?:[A-Za-z0-9._:-]|%3A)+';

const agentPaths = Object.values(routes)
  .filter(({ tag }) => tag === 'agent')
  .map(({ path }) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, idPattern)}$`));

export const isAgentPath = (path: string): boolean => agentPaths.some((each) => each.test(path));

export interface ListenerParts {
  batcher: Batcher;
  upstream: Upstream;
  metrics(): string;
}

const heartbeat = Compile(Heartbeat);
const maxBeatBytes = 16 * 1024;
const bearer = /^Bearer +([!-~]{1,512})$/i;

const healthPath = serverRoutes['health-get'].path;
const beatPath = agentRoutes['agent-heartbeat'].path;
const streamPath = agentRoutes['agent-stream'].path;
const metricsPath = serverRoutes['metrics-get'].path;

/** Returns null for an encoded or large body. The caller then forwards the request as a stream. */
async function readSmallBody(request: IncomingMessage): Promise<Buffer | null> {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined || headers['content-encoding'] !== undefined) return null;
  if (Number(headers['content-length'] ?? 0) > maxBeatBytes) return null;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Returns null for an invalid heartbeat. It is forwarded, so that the control plane refuses it. */
function parseBeat(body: Buffer): Heartbeat | null {
  if (body.length === 0) return {};
  try {
    const beat: unknown = JSON.parse(body.toString('utf8'));
    return heartbeat.Check(beat) ? beat : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

async function takeBeat(
  request: IncomingMessage,
  response: ServerResponse,
  target: Target,
  { batcher, upstream }: ListenerParts,
): Promise<void> {
  const credential = bearer.exec(request.headers.authorization ?? '')?.[1];
  const body = await readSmallBody(request);
  const isJson = body?.length === 0 || /^application\/json\b/i.test(request.headers['content-type'] ?? '');
  const beat = body && isJson ? parseBeat(body) : null;
  if (credential === undefined || beat === null) return forward(upstream, target, request, response, body ?? undefined);
  sendOutcome(request, response, await batcher.take(credential, beat));
}

export const relayListener =
  (parts: ListenerParts) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const target = targetOf(request.url ?? '/');
    const refuse = (problem: ApiProblem) => sendProblem(request, response, problem);
    const refuseUnknown = () => refuse(new ApiProblem('not_found', 'A relay serves only agents.'));
    if (!target) {
      refuseUnknown();
      return;
    }
    const { path } = target;
    // Only browsers send Origin, and no page may call a relay.
    if (request.headers.origin !== undefined) refuse(new ApiProblem('origin_refused'));
    else if (path === streamPath)
      refuse(new ApiProblem('not_found', 'A relay has no streams. Open the stream at the control plane.'));
    else if (path === beatPath && request.method === 'POST')
      // Fails only if the agent disconnected while its body was read.
      takeBeat(request, response, target, parts).catch(() => response.destroy());
    else if (isAgentPath(path) || path === healthPath) forward(parts.upstream, target, request, response);
    else if (path === metricsPath) {
      response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' });
      response.end(parts.metrics());
    } else refuseUnknown();
  };

/** Hop-by-hop headers, and headers that the control plane accepts from a trusted proxy only. */
const hopHeaders = new Set([
  'connection',
  'forwarded',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
]);

const withoutHopHeaders = (headers: IncomingMessage['headers']): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || hopHeaders.has(name) ? [] : [[name, value] as const],
    ),
  );

/**
 * Forwards a request to the normalised path, and streams the response back unchanged. `body` is the
 * whole request body if the caller has read it already.
 */
function forward(
  upstream: Upstream,
  { path, search }: Target,
  request: IncomingMessage,
  response: ServerResponse,
  body?: Buffer,
): void {
  const headers = withoutHopHeaders(request.headers);
  const upstreamRequest = upstream.open(request.method ?? 'GET', path + search, headers);
  upstreamRequest.on('error', (error) =>
    sendProblem(
      request,
      response,
      new ApiProblem('relay_upstream_away', { detail: undeliveredDetail(error), retry_after_seconds: 1 }),
    ),
  );
  upstreamRequest.on('response', (reply) => {
    if (response.destroyed) return void reply.destroy();
    response.writeHead(reply.statusCode ?? 502, withoutHopHeaders(reply.headers));
    // If the upstream response breaks off, the pipeline aborts ours, so that it does not look
    // complete.
    pipeline(reply, response, () => {});
  });
  // If the agent disconnects during a long poll, close the upstream connection too.
  response.on('close', () => {
    if (!response.writableFinished) upstreamRequest.destroy();
  });
  if (body !== undefined) upstreamRequest.end(body);
  else pipeline(request, upstreamRequest, () => {});
}
