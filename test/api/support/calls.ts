/**
 * HTTP calls without our client, so that a test can send invalid requests and see whole answers.
 */
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

export interface SendOptions {
  bearer?: string;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent unchanged. */
  raw?: string;
}

export async function send(url: string, method: string, path: string, options: SendOptions = {}): Promise<Answer> {
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  const reply = await fetch(url + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(options.bearer !== undefined && { authorization: `Bearer ${options.bearer}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...options.headers,
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

/**
 * Calls a route of the contract, and checks that the OpenAPI document lists the answered status.
 */
export async function callRoute(
  url: string,
  name: OperationName,
  input: Input,
  options: SendOptions = {},
): Promise<Answer> {
  const route: RouteDeclaration = routes[name];
  const answer = await send(url, route.method, fillPath(route.path, input.params, input.query), {
    ...(input.body !== undefined && { body: input.body }),
    ...options,
  });
  const otherStatuses = Object.keys(route.also_answers ?? {}).map(Number);
  expect([route.success, ...otherStatuses, ...problemsByStatus(name).keys()], name).toContain(answer.status);
  return answer;
}

const problemCheck = Compile(Problem);

/** Checks that an answer is a problem of the catalogue, consistent in body, status and headers. */
export function expectProblem(answer: Answer, code?: ErrorCode | ErrorCode[], note = ''): void {
  const message = `${note} → ${answer.status} ${answer.text.slice(0, 300)}`;
  expect(answer.headers.get('content-type'), message).toContain('application/problem+json');
  expect(problemCheck.Check(answer.body), message).toBe(true);
  const receivedCode = answer.body.code as ErrorCode;
  expect(errorCatalogue, message).toHaveProperty(receivedCode);
  expect(answer.status, message).toBe(errorCatalogue[receivedCode].status);
  expect(answer.body.status, message).toBe(answer.status);
  expect(answer.body.correlation_id, message).toBe(answer.headers.get('x-correlation-id'));
  expect(answer.status, message).not.toBe(500);
  if (code !== undefined) expect([code].flat(), message).toContain(receivedCode);
}
