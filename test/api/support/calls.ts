/** Raw calls without our client, so that a test can send anything and see everything. */
import { Compile } from 'typebox/compile';
import { expect } from 'vitest';
import { fillPath } from '../../../src/contract/client.ts';
import { type ErrorCode, errorCatalogue } from '../../../src/contract/errors/errors.ts';
import { Problem } from '../../../src/contract/errors/problem.ts';
import { problemsByStatus } from '../../../src/contract/openapi/problems.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  body: Record<string, unknown>;
}

export interface Sent {
  bearer?: string;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent unchanged. */
  raw?: string;
}

export async function send(url: string, method: string, path: string, sent: Sent = {}): Promise<Answer> {
  const body = sent.raw ?? (sent.body === undefined ? undefined : JSON.stringify(sent.body));
  const reply = await fetch(url + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(sent.bearer !== undefined && { authorization: `Bearer ${sent.bearer}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...sent.headers,
    },
    ...(body !== undefined && { body }),
  });
  const text = await reply.text();
  const isJson = (reply.headers.get('content-type') ?? '').includes('json');
  return { status: reply.status, headers: reply.headers, text, body: isJson && text ? JSON.parse(text) : {} };
}

export interface Input {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
}

/** Also checks that the OpenAPI document lists the status of the answer. */
export async function callRoute(url: string, name: OperationName, input: Input, sent: Sent = {}): Promise<Answer> {
  const route: RouteDeclaration = routes[name];
  const answer = await send(url, route.method, fillPath(route.path, input.params, input.query), {
    ...(input.body !== undefined && { body: input.body }),
    ...sent,
  });
  const others = Object.keys(route.also_answers ?? {}).map(Number);
  expect([route.success, ...others, ...problemsByStatus(name).keys()], name).toContain(answer.status);
  return answer;
}

const problem = Compile(Problem);

/** Checks that a refusal is a problem of the catalogue, consistent in body, status and headers. */
export function expectProblem(answer: Answer, code?: ErrorCode | ErrorCode[], note = ''): void {
  const shown = `${note} → ${answer.status} ${answer.text.slice(0, 300)}`;
  expect(answer.headers.get('content-type'), shown).toContain('application/problem+json');
  expect(problem.Check(answer.body), shown).toBe(true);
  const received = answer.body.code as ErrorCode;
  expect(errorCatalogue, shown).toHaveProperty(received);
  expect(answer.status, shown).toBe(errorCatalogue[received].status);
  expect(answer.body.status, shown).toBe(answer.status);
  expect(answer.body.correlation_id, shown).toBe(answer.headers.get('x-correlation-id'));
  expect(answer.status, shown).not.toBe(500);
  if (code !== undefined) expect([code].flat(), shown).toContain(received);
}
