import { generateKeyPairSync, sign } from 'node:crypto';
import { expect, test } from 'vitest';
import type { TaskKey } from './agent.ts';
import { continuityOf, endorsementText } from './task-key-chain.ts';

function newKey(kid: string) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const key: TaskKey = { kid, public_key: publicKey.export({ type: 'spki', format: 'der' }).toString('base64') };
  const endorse = (next: TaskKey): TaskKey => ({
    ...next,
    endorsed_by: kid,
    endorsement: sign(null, Buffer.from(endorsementText(next)), privateKey).toString('base64'),
  });
  return { key, endorse };
}

const [first, second, third] = [newKey('k1'), newKey('k2'), newKey('k3')] as const;
const endorsedSecond = first.endorse(second.key);
const endorsedThird = second.endorse(third.key);

test('a known key needs no endorsement', () => {
  expect(continuityOf(first.key, [first.key], [])).toBe('known');
});

test('a key is proven if endorsements lead over several keys to a known one', () => {
  expect(continuityOf(endorsedThird, [first.key], [endorsedSecond, endorsedThird])).toBe('proven');
});

test('a key is unproven if no endorsement leads to a known key, even in a cycle', () => {
  expect(continuityOf(endorsedThird, [first.key], [endorsedThird])).toBe('unproven');
  const circle = [third.endorse(second.key), endorsedThird];
  expect(continuityOf(endorsedThird, [first.key], circle)).toBe('unproven');
});

test('a key is forged if its endorsement is wrong, or if its id is known with another key', () => {
  expect(continuityOf({ ...third.endorse(second.key), endorsed_by: 'k1' }, [first.key], [])).toBe('forged');
  expect(continuityOf({ ...second.key, kid: 'k1' }, [first.key], [])).toBe('forged');
});
