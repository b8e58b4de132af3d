import { expect, test } from 'vitest';
import { orderOffers, repeatedFailureIn } from './order-offers.ts';

const offer = (action: string) => ({ action, does: `does ${action}`, open: true, why_not: null });
const offers = ['retry', 'quarantine', 'retry-release'].map(offer);
const names = (leading: Parameters<typeof orderOffers>[1]) => orderOffers(offers, leading).map(({ action }) => action);
const failing = (...newest: object[]) => ({
  kind: 'repeat-failure',
  pool: 'render',
  theirs: { failures: newest.length, newest },
});
const noDisk = { by: 'provision-error', code: 'no_disk', reason: 'disk 3 is full' };
const overdue = { by: 'provision-deadline', code: null, reason: 'waited 4 s' };

test('puts retry-release first after a failed release', () => {
  expect(names({ repeated: null, release_failed: false })).toEqual(['retry', 'quarantine', 'retry-release']);
  expect(names({ repeated: null, release_failed: true })).toEqual(['retry-release', 'retry', 'quarantine']);
});

test('puts a repeatedly failed retry last, with advice', () => {
  const repeated = repeatedFailureIn([failing(overdue, { ...overdue, reason: 'waited 5 s' }, overdue)]);
  expect(repeated).toEqual({ failures: 3, same_way: true, pool: 'render' });
  const ordered = orderOffers(offers, { repeated, release_failed: false });
  expect(ordered.at(-1)).toMatchObject({
    action: 'retry',
    does: 'does retry; it has failed to come up 3 times in the same way, so change pool render first',
  });
});

test('counts different failures without calling them the same', () => {
  const differs = (...newest: object[]) => {
    expect(repeatedFailureIn([failing(...newest)])).toMatchObject({ failures: newest.length, same_way: false });
  };
  differs(noDisk, overdue);
  differs(noDisk, { ...noDisk, code: 'no_route' });
  differs(overdue, { ...overdue, by: 'start-deadline' });
  // Findings of earlier versions have no codes.
  differs({ by: 'provision-deadline', reason: 'late' }, { by: 'provision-deadline', reason: 'late' });
  expect(repeatedFailureIn([{ kind: 'drift', pool: 'render', theirs: { state: 'absent' } }])).toBeNull();
});
