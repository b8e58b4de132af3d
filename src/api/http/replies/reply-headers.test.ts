import { expect, it } from 'vitest';
import { isNamedHost } from './reply-headers.ts';

it.each([
  ['slipway.example', true],
  ['slipway.example:8443', true],
  ['localhost.example', true],
  ['localhost', false],
  ['LOCALHOST:7070', false],
])('sends HSTS on %s: %s', (host, isNamed) => {
  expect(isNamedHost({ headers: { host } })).toBe(isNamed);
});
