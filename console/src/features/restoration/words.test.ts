import { expect, it } from 'vitest';
import { endedNotice, quarantineWords } from './words.ts';

it('lists the nodes that the end of a restoration quarantines', () => {
  const differences = { changed_hands: 20, unconfirmed: 2, maybe_used: 1 };
  const nothing = { trustsFree: false, trustsUnconfirmed: false };
  expect(quarantineWords(differences, nothing)).toBe(
    'First quarantined: 20 nodes that changed hands, 2 nodes that cannot be confirmed, 1 node that may be used.',
  );
  expect(quarantineWords(differences, { trustsFree: true, trustsUnconfirmed: true })).toBe(
    'First quarantined: 20 nodes that changed hands.',
  );
  expect(quarantineWords({ ...differences, changed_hands: 0, unconfirmed: 0 }, { ...nothing, trustsFree: true })).toBe(
    'No node is quarantined.',
  );
});

it('counts the quarantined nodes afterwards', () => {
  expect([0, 1, 2].map(endedNotice)).toEqual([
    'The servers act again; no node was quarantined',
    'The servers act again; 1 node quarantined',
    'The servers act again; 2 nodes quarantined',
  ]);
});
