import { expect, test } from 'vitest';
import { tenantOnly, wholeFleet } from '../visibility.ts';
import { type ActionCaller, type ActionRow, offersOf, whyNot, whyNotForCaller } from './action-table.ts';

type Status = 'up' | 'down' | 'gone';
interface Subject {
  status: Status;
  full: boolean;
}
const fill: ActionRow<Status, Subject> = {
  does: 'fills it',
  for: 'tenant',
  from: ['up', 'down'],
  wrongStatusReasons: { gone: 'Nothing is left to fill.' },
  whyNot: ({ full }) => (full ? 'It is full.' : null),
};
const sink: ActionRow<Status, Subject> = { does: 'sinks it', for: 'fleet', from: ['up'] };

test('makes an action available in its statuses if its precondition is met', () => {
  expect(whyNot(fill, { status: 'up', full: false })).toBeNull();
  expect(whyNot(fill, { status: 'down', full: false })).toBeNull();
  expect(whyNot(fill, { status: 'up', full: true })).toBe('It is full.');
  expect(whyNot(sink, { status: 'up', full: true })).toBeNull();
});

test("gives the table's reason in other statuses, or names the required statuses", () => {
  expect(whyNot(fill, { status: 'gone', full: true })).toBe('Nothing is left to fill.');
  expect(whyNot(sink, { status: 'gone', full: false })).toBe('It is gone; this needs up.');
  expect(whyNot({ ...fill, wrongStatusReasons: {} }, { status: 'gone', full: false })).toBe(
    'It is gone; this needs up, down.',
  );
});

const readOnly = 'Your token is read-only; this needs the role operator.';
const fleetOnly = 'Only operators of the whole fleet may do this.';

test.each<[ActionCaller['role'], string | null, string | null, string | null]>([
  ['viewer', null, readOnly, readOnly],
  ['viewer', 'acme', readOnly, readOnly],
  ['operator', null, null, null],
  ['operator', 'acme', null, fleetOnly],
  ['admin', null, null, null],
  ['admin', 'acme', null, fleetOnly],
])(
  'gives the reason why a caller (%s, tenant %s) may not take a tenant action (%s) or a fleet action (%s)',
  (role, tenant, whyNotTenant, whyNotFleet) => {
    const visibility = tenant === null ? wholeFleet : tenantOnly(tenant);
    expect(whyNotForCaller('tenant', { role, visibility })).toBe(whyNotTenant);
    expect(whyNotForCaller('fleet', { role, visibility })).toBe(whyNotFleet);
  },
);

test('lists every action with its availability, and checks the caller before the status', () => {
  const table = { fill, sink };
  const subject: Subject = { status: 'down', full: false };
  expect(
    offersOf<keyof typeof table, Status, Subject>(table, subject, { role: 'operator', visibility: tenantOnly('acme') }),
  ).toEqual([
    { action: 'fill', does: 'fills it', open: true, why_not: null },
    { action: 'sink', does: 'sinks it', open: false, why_not: 'Only operators of the whole fleet may do this.' },
  ]);
  expect(
    offersOf<keyof typeof table, Status, Subject>(table, subject, { role: 'admin', visibility: wholeFleet })[1],
  ).toEqual({
    action: 'sink',
    does: 'sinks it',
    open: false,
    why_not: 'It is down; this needs up.',
  });
});
