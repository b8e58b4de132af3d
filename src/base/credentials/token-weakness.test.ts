import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { tokenWeakness } from './token-weakness.ts';

it.each([
  ['short', 'aB3$xY9!qW2@eR5%tZ7&uI1', /24 characters/],
  ['made of one character', 'a'.repeat(40), /different characters/],
  ['made of few characters', 'abcabacbbacbabcabcbacbabcabac', /different characters/],
  ['a repeated word', 'changeme!1'.repeat(3), /repeat/],
  ['a pattern whose last repetition is partial', 'correct-horse1correct-horse1corr', /repeat/],
  ['several words with blanks', 'correct horse battery staple 42', /visible/],
])('refuses a token that is %s', (_, token, why) => {
  expect(tokenWeakness(token)).toMatch(why);
});

it('accepts random tokens of the usual formats', () => {
  for (const encoding of ['hex', 'base64', 'base64url'] as const)
    for (let tries = 0; tries < 200; tries++) expect(tokenWeakness(randomBytes(24).toString(encoding))).toBeUndefined();
});
