/** Passes a request on as it came, to the path that was judged, and its answer back as it comes: nothing is kept, nothing is judged. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import { ApiProblem } from '../contract/errors/errors.ts';
import type { Target } from './agent-paths.ts';
import { sendProblem } from './answers.ts';
import { unheardBecause } from './gatherer.ts';
import type { Upstream } from './upstream.ts';

/** Of one connection and not of the request; and what only a proxy that the control plane trusts may say. */
const notPassedOn = new Set([
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

const passedOn = (headers: IncomingMessage['headers']): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || notPassedOn.has(name) ? [] : [[name, value] as const],
    ),
  );

/** `body`: what was read of it already, which is all of it. */
export function passOn(
  upstream: Upstream,
  { path, search }: Target,
  request: IncomingMessage,
  response: ServerResponse,
  body?: Buffer,
): void {
  const headers = passedOn(request.headers);
  const asked = upstream.open(request.method ?? 'GET', path + search, headers);
  asked.on('error', (error) =>
    sendProblem(
      request,
      response,
      new ApiProblem('relay_upstream_away', { detail: unheardBecause(error), retry_after_seconds: 1 }),
    ),
  );
  asked.on('response', (reply) => {
    if (response.destroyed) return void reply.destroy();
    response.writeHead(reply.statusCode ?? 502, passedOn(reply.headers));
    // One that breaks off half-way is broken off here as well, so that nobody takes a part for the whole.
    pipeline(reply, response, () => {});
  });
  // Whoever left no longer waits for the answer, and a long poll would hold its connection for nobody.
  response.on('close', () => {
    if (!response.writableFinished) asked.destroy();
  });
  if (body !== undefined) asked.end(body);
  else pipeline(request, asked, () => {});
}
