import { expect, it } from 'vitest';
import type { Node } from '../../../../src/contract/node.ts';
import { ailingBy, ailingOf, ailingWords, reasonOf } from './machine-trouble.ts';

it('an active allocation ails with its machine, and no other does', () => {
  const nodes = [
    { allocation_id: 'silent', status: 'offline', status_since: 'then' },
    { allocation_id: 'aside', status: 'quarantined', status_since: 'later' },
    { allocation_id: 'well', status: 'ready' },
    { allocation_id: null, status: 'offline' },
  ] as Node[];
  const ailing = ailingBy(nodes);
  const of = (allocation_id: string, status: 'active' | 'failed') => ailingOf({ allocation_id, status }, ailing);
  expect([of('silent', 'active'), of('aside', 'active'), of('well', 'active')]).toEqual([
    { status: 'offline', since: 'then' },
    { status: 'quarantined', since: 'later' },
    null,
  ]);
  expect(of('silent', 'failed')).toBeNull();
  const ready = { reason: 'the node said it is ready' };
  const silent = { reason: 'its machine is offline: it has been silent for 31 s' };
  expect(reasonOf(ready, { status: 'quarantined', since: 'later' })).toBe(ailingWords.quarantined.says);
  expect(reasonOf(silent, { status: 'offline', since: 'then' })).toBe(silent.reason);
  expect(reasonOf(ready, null)).toBe(ready.reason);
});
