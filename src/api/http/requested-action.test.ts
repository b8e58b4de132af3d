/** What is kept of a refused request's body. */
import type { FastifyRequest } from 'fastify';
import { expect, test, vi } from 'vitest';
import { askedFor, dropBody } from './requested-action.ts';

const refused = (body: unknown) => {
  const resume = vi.fn();
  const request = { body, params: { id: 'alloc_1' }, operation: 'allocation-release', method: 'POST', raw: { resume } };
  return { request: request as unknown as FastifyRequest, resume };
};

test('the body of a refused request is dropped but for what its record names', () => {
  const { request, resume } = refused({ reason: 'it is idle', dry_run: true, labels: { large: 'x'.repeat(100_000) } });
  const before = askedFor(request);
  dropBody(request);
  expect(askedFor(request)).toEqual(before);
  expect(JSON.stringify(request.body).length).toBeLessThan(200);
  expect(resume).toHaveBeenCalledOnce();
});

test('a reason that is longer than allowed is not kept, and any body can be dropped', () => {
  for (const body of [{ reason: 'x'.repeat(100_000) }, 'x'.repeat(100_000), [1], null, undefined]) {
    const { request } = refused(body);
    dropBody(request);
    expect(JSON.stringify(request.body).length).toBeLessThan(200);
  }
});
