import type { FastifyRequest } from 'fastify';
import { expect, test, vi } from 'vitest';
import { dropBody, readRequestedAction } from './refused-action.ts';

const requestWith = (body: unknown) => {
  const resume = vi.fn();
  const request = { body, params: { id: 'alloc_1' }, operation: 'allocation-release', method: 'POST', raw: { resume } };
  return { request: request as unknown as FastifyRequest, resume };
};

test('drops the body of a refused request except for the fields of its record', () => {
  const { request, resume } = requestWith({
    reason: 'the node is idle',
    dry_run: true,
    labels: { large: 'x'.repeat(100_000) },
  });
  const before = readRequestedAction(request);
  dropBody(request);
  expect(readRequestedAction(request)).toEqual(before);
  expect(JSON.stringify(request.body).length).toBeLessThan(200);
  expect(resume).toHaveBeenCalledOnce();
});

test('drops a reason that is too long, and bodies that are not objects', () => {
  for (const body of [{ reason: 'x'.repeat(100_000) }, 'x'.repeat(100_000), [1], null, undefined]) {
    const { request } = requestWith(body);
    dropBody(request);
    expect(JSON.stringify(request.body).length).toBeLessThan(200);
  }
});
