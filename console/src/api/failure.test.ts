import { expect, test } from 'vitest';
import { RequestRefused } from '../../../src/contract/client.ts';
import type { Problem } from '../../../src/contract/errors/problem.ts';
import { failureOf, PartNotLoaded } from './failure.ts';

const busy = { code: 'server_busy', status: 429, title: 'Server overloaded', retry_after_seconds: 5 };
const refused = (problem: Partial<Problem>) => new RequestRefused(problem as Problem);

test('the remedy says how long to wait', () => {
  expect(failureOf(refused(busy)).remedy).toMatch(/^Wait 5 s, then repeat\./);
});

test('a page that could not be loaded is reported as an unreachable server', () => {
  expect(failureOf(new PartNotLoaded(new TypeError('Importing a module script failed.')))).toMatchObject({
    title: 'The server does not answer',
    owner_layer: 'transport',
    detail: 'This page loads when you first open it, and loading it failed.',
  });
});

test.each(['x is not a function', 'Importing a module script failed.'])(
  'any other error is an internal error of the console: %s',
  (message) => {
    expect(failureOf(new TypeError(message))).toMatchObject({
      title: 'Internal error in the console',
      detail: message,
      owner_layer: null,
    });
  },
);
