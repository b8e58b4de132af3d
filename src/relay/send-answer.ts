/** Writes the relay's own responses: heartbeat outcomes and problems of the error catalogue. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { newCorrelationId } from '../base/ids.ts';
import { ApiProblem, type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';
import { problemBody } from '../contract/errors/problem-body.ts';
import type { BeatOutcome } from './batcher.ts';

function send(response: ServerResponse, status: number, type: string, body: object): void {
  if (response.headersSent || response.destroyed) return;
  // Agents take the Date header for the control plane's time, so the relay sends none.
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

export function sendProblem(
  request: IncomingMessage,
  response: ServerResponse,
  problem: ApiProblem,
  more: object = {},
): void {
  const correlation_id = String(request.headers['x-correlation-id'] ?? newCorrelationId());
  const body = { ...problemBody(problem, correlation_id), ...more };
  if (body.retry_after_seconds !== undefined && !response.headersSent)
    response.setHeader('retry-after', Math.ceil(body.retry_after_seconds));
  send(response, body.status, 'application/problem+json; charset=utf-8', body);
}

const isOurs = (code: string): code is ErrorCode => Object.hasOwn(errorCatalogue, code);

export function sendOutcome(request: IncomingMessage, response: ServerResponse, outcome: BeatOutcome): void {
  if ('node_status' in outcome) {
    send(response, 200, 'application/json; charset=utf-8', outcome);
    return;
  }
  const { code, status, detail, ...more } = outcome;
  // A newer control plane may send a code that this relay does not know; its status still applies.
  const known = isOurs(code) ? code : 'relay_upstream_away';
  sendProblem(request, response, new ApiProblem(known, { detail, ...more }), { code, status });
}
