import { expect, test } from 'vitest';
import { findRepeatedFailure, type OrderFacts, orderOffers } from './order-offers.ts';

const offer = (action: string) => ({ action, does: `does ${action}`, open: true, why_not: null });
const offers = ['retry', 'quarantine', 'retry-release'].map(offer);
const orderedActions = (facts: OrderFacts) => orderOffers(offers, facts).map(({ action }) => action);
const failureFinding = (...newest: object[]) => ({
  kind: 'repeat-failure',
  pool: 'render',
  theirs: { failures: newest.length, newest },
});
const noDisk = { by: 'provision-error', code: 'no_disk', reason: 'disk 3 is full' };
const overdue = { by: 'provision-deadline', code: null, reason: 'waited 4 s' };

test('puts retry-release first after a failed release', () => {
  expect(orderedActions({ repeated: null, release_failed: false })).toEqual(['retry', 'quarantine', 'retry-release']);
  expect(orderedActions({ repeated: null, release_failed: true })).toEqual(['retry-release', 'retry', 'quarantine']);
});

test('puts retry last after repeated failures of the same kind, and says to change the pool first', () => {
  const repeated = findRepeatedFailure([failureFinding(overdue, { ...overdue, reason: 'waited 5 s' }, overdue)]);
  expect(repeated).toEqual({ failures: 3, same_way: true, pool: 'render' });
  const ordered = orderOffers(offers, { repeated, release_failed: false });
  expect(ordered.at(-1)).toMatchObject({
    action: 'retry',
    does: 'does retry; the machine failed to start 3 times in the same way, so change pool render first',
  });
});

test('compares failures by rule and code, and ignores other findings', () => {
  const expectDifferent = (...newest: object[]) => {
    expect(findRepeatedFailure([failureFinding(...newest)])).toMatchObject({
      failures: newest.length,
      same_way: false,
    });
  };
  expectDifferent(noDisk, overdue);
  expectDifferent(noDisk, { ...noDisk, code: 'no_route' });
  expectDifferent(overdue, { ...overdue, by: 'start-deadline' });
  // Failures without a code, recorded by earlier versions, cannot be compared.
  expectDifferent({ by: 'provision-deadline', reason: 'late' }, { by: 'provision-deadline', reason: 'late' });
  expect(findRepeatedFailure([{ kind: 'drift', pool: 'render', theirs: { state: 'absent' } }])).toBeNull();
});
