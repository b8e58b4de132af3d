import { expect, test } from 'vitest';
import { RequestRefused } from '../../../src/contract/client.ts';
import type { Problem } from '../../../src/contract/errors/problem.ts';
import { failureOf } from './failure.ts';

const busy = { code: 'server_busy', status: 429, title: 'Server overloaded', retry_after_seconds: 5 };
const refused = (problem: Partial<Problem>) => new RequestRefused(problem as Problem);

test('what to do says how long to wait, not the name of the field that does', () => {
  expect(failureOf(refused(busy)).remedy).toMatch(/^Wait 5 s, then repeat\./);
});

test.each([
  'Unable to preload CSS for /assets/FleetPage-1a2b.css',
  'Failed to fetch dynamically imported module: http://127.0.0.1:7070/assets/BootsPage-1a2b.js',
  'Importing a module script failed.',
])('a page that could not be fetched is the server’s silence, not our mistake: %s', (words) => {
  expect(failureOf(new TypeError(words))).toMatchObject({
    title: 'The server does not answer',
    owner_layer: 'transport',
    detail: 'This page is fetched when it is first opened, and could not be.',
  });
});

test('any other error is ours, with its words', () => {
  expect(failureOf(new TypeError('x is not a function'))).toMatchObject({
    title: 'The console made a mistake',
    detail: 'x is not a function',
    owner_layer: null,
  });
});
