/** False reports, failures and clock jumps move a learned budget by at most its daily limit. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { maxMovePerDay } from '../../lifecycle/boots/learned-budget.ts';
import type { TimedBoot } from '../../lifecycle/boots/survival.ts';
import { currentPool, declarePool } from '../../store/rows/pools.ts';
import { evenBoots, recordBoots } from '../../store/testing/recorded-boots.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { learnedBudget } from './learned-budget.ts';

const day = 86_400;
const fixed_seconds = 400;
const honest_seconds = 300;
let fixture: RuleFixture;

const runPass = (seconds: number) => learnedBudget(fixture.services).run(fixture.at(seconds));
const record = (boots: TimedBoot[], until: number) =>
  recordBoots(fixture.db, { pool: 'build', boots, until: fixture.at(until) });
const readBudget = async () => (await currentPool(fixture.db, 'build'))?.document.learned?.seconds ?? fixed_seconds;
const repeatBoot = (count: number, seconds: number, outcome: TimedBoot['outcome']): TimedBoot[] =>
  Array.from({ length: count }, () => ({ seconds, outcome }));

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('build', {
    budgets: { policy: 'learned', provision_seconds: fixed_seconds, ceiling_seconds: 900 },
  });
  await record(evenBoots(100, honest_seconds / 1.5), 0);
  for (const at of [1, day + 2]) await runPass(at);
  expect(await readBudget(), 'the budget learned from honest boots').toBe(honest_seconds);
});
afterEach(() => fixture.close());

test('a node that registers arbitrarily late moves the budget by at most 25 % a day, up to the ceiling', async () => {
  const firstDay = 3 * day;
  let previous = honest_seconds;
  for (let at = 0; at < 8; at++) {
    await record(repeatBoot(5, 1e6, 'late'), firstDay + at * day);
    for (let hour = 0; hour < 24; hour += 4) await runPass(firstDay + at * day + hour * 3600 + at + 1);
    const next = await readBudget();
    expect(next).toBeLessThanOrEqual(previous * (1 + maxMovePerDay) + 1e-9);
    previous = next;
  }
  expect(previous).toBeLessThanOrEqual(900);
});

test('a mass outage does not move the budget, and 500 failed boots move it by at most the daily limit', async () => {
  await record(repeatBoot(300, honest_seconds, 'timed_out'), 3 * day);
  await runPass(3 * day + 1);
  expect(await readBudget()).toBe(honest_seconds);
  await record(repeatBoot(400, 5, 'cancelled'), 3 * day + 5);
  await runPass(3 * day + 6);
  // The newest 500 boots all failed. Without usable boots the budget returns towards the fixed one,
  // within the daily limit.
  expect(await readBudget()).toBeLessThanOrEqual(honest_seconds * (1 + maxMovePerDay));
  expect(await readBudget()).toBeLessThanOrEqual(fixed_seconds);
});

test('a clock that jumps a year ahead and back moves the budget by one step, and learning continues', async () => {
  await runPass(365 * day);
  const ahead = await readBudget();
  expect(ahead).toBeGreaterThan(honest_seconds);
  expect(ahead).toBeLessThanOrEqual(honest_seconds * (1 + maxMovePerDay));
  await runPass(3 * day);
  const back = await readBudget();
  expect(back).toBeGreaterThanOrEqual(ahead * (1 - maxMovePerDay));
  for (let at = 4; at < 8; at++) await runPass(at * day + at);
  expect(await readBudget()).toBe(honest_seconds);
});

const setBudget = (provision_seconds: number, at: number) =>
  fixture.db.transaction((tx) =>
    declarePool(tx, 'build', { driver: 'external', budgets: { policy: 'learned', provision_seconds } }, fixture.at(at)),
  );

test('a budget set by an operator during a pass applies for a day, then moves once a day', async () => {
  await setBudget(1000, 3 * day + 10);
  for (const at of [5, 65, 2 * 3600]) await runPass(3 * day + at);
  expect((await currentPool(fixture.db, 'build'))?.document.learned?.seconds).toBeNull();
  for (const at of [0, 2, 4]) await runPass(5 * day + at * 3600);
  expect((await currentPool(fixture.db, 'build'))?.document.learned?.seconds).toBe(750);
});

test('a budget set under a clock that jumped ahead still allows one move a day', async () => {
  await setBudget(1000, 33 * day);
  for (let hour = 0; hour < 24; hour += 2) await runPass(4 * day + hour * 3600);
  expect((await currentPool(fixture.db, 'build'))?.document.learned?.seconds).toBe(750);
  await runPass(5 * day + 3600);
  expect((await currentPool(fixture.db, 'build'))?.document.learned?.seconds).toBe(562.5);
});

test('ignores impossible durations', async () => {
  await record([...repeatBoot(40, -500, 'completed'), ...repeatBoot(40, 0, 'late')], 3 * day);
  await runPass(3 * day + 1);
  expect(await readBudget()).toBe(honest_seconds);
});

test('a pool whose budget cannot be saved does not stop the others, and is named in the error', async () => {
  await fixture.declarePool('later', { budgets: { policy: 'learned', provision_seconds: fixed_seconds } });
  await recordBoots(fixture.db, { pool: 'later', boots: evenBoots(40, 200), until: fixture.at(3 * day) });
  await record(repeatBoot(40, 1e6, 'late'), 3 * day);
  // Saving the move fails, because a row with this pool and time already exists.
  await fixture.db.query('insert into budget_changes (pool, at, from_seconds, seconds) values ($1, $2, $3, $3)', [
    ...['build', fixture.at(3 * day + 1), honest_seconds],
  ]);
  await expect(runPass(3 * day + 1)).rejects.toThrow(/build: duplicate key/);
  expect((await currentPool(fixture.db, 'later'))?.document.learned?.seconds).toBe(300);
  expect(await readBudget(), 'the failing pool keeps its budget').toBe(honest_seconds);
});
