import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { tokenWeakness } from './token-weakness.ts';

it.each([
  ['short', 'aB3$xY9!qW2@eR5%tZ7&uI1', /24 characters/],
  ['of one character', 'a'.repeat(40), /different characters/],
  ['of few characters', 'abcabacbbacbabcabcbacbabcabac', /different characters/],
  ['a word repeated', 'changeme!1'.repeat(3), /repeat/],
  ['a pattern repeated in part', 'correct-horse1correct-horse1corr', /repeat/],
  ['with a blank', 'correct horse battery staple 42', /visible/],
])('refuses a token that is %s', (_, token, why) => {
  expect(tokenWeakness(token)).toMatch(why);
});

it('accepts random tokens of the usual formats', () => {
  for (const encoding of ['hex', 'base64', 'base64url'] as const)
    for (let tries = 0; tries < 200; tries++) expect(tokenWeakness(randomBytes(24).toString(encoding))).toBeUndefined();
});
