/** Forwards a request to the normalised path, and streams the response back unchanged. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import { ApiProblem } from '../contract/errors/errors.ts';
import type { Target } from './agent-paths.ts';
import { undeliveredBecause } from './batcher.ts';
import { sendProblem } from './send-answer.ts';
import type { Upstream } from './upstream.ts';

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

/** `body` is the whole request body if the caller has read it already. */
export function forward(
  upstream: Upstream,
  { path, search }: Target,
  request: IncomingMessage,
  response: ServerResponse,
  body?: Buffer,
): void {
  const headers = withoutHopHeaders(request.headers);
  const forwarded = upstream.open(request.method ?? 'GET', path + search, headers);
  forwarded.on('error', (error) =>
    sendProblem(
      request,
      response,
      new ApiProblem('relay_upstream_away', { detail: undeliveredBecause(error), retry_after_seconds: 1 }),
    ),
  );
  forwarded.on('response', (reply) => {
    if (response.destroyed) return void reply.destroy();
    response.writeHead(reply.statusCode ?? 502, withoutHopHeaders(reply.headers));
    // If the upstream response breaks off, the pipeline breaks off ours, so that it does not look
    // complete.
    pipeline(reply, response, () => {});
  });
  // The agent is gone; without this a long poll would keep its upstream connection.
  response.on('close', () => {
    if (!response.writableFinished) forwarded.destroy();
  });
  if (body !== undefined) forwarded.end(body);
  else pipeline(request, forwarded, () => {});
}
