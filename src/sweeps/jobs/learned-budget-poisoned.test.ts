/** Lies, failures and clock jumps do not move a learned budget by more than its daily limit. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { maxMovePerDay } from '../../lifecycle/boots/learned-budget.ts';
import type { TimedBoot } from '../../lifecycle/boots/survival.ts';
import { currentPool, declarePool } from '../../store/rows/pools.ts';
import { evenBoots, recordBoots } from '../../store/testing/recorded-boots.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { learnedBudget } from './learned-budget.ts';

const day = 86_400;
const fixed_seconds = 400;
const honest_seconds = 300;
let stage: Stage;

const pass = (seconds: number) => learnedBudget(stage.services).run(stage.at(seconds));
const record = (boots: TimedBoot[], until: number) =>
  recordBoots(stage.db, { pool: 'build', boots, until: stage.at(until) });
const budget = async () => (await currentPool(stage.db, 'build'))?.document.learned?.seconds ?? fixed_seconds;
const many = (count: number, seconds: number, outcome: TimedBoot['outcome']): TimedBoot[] =>
  Array.from({ length: count }, () => ({ seconds, outcome }));

beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('build', { budgets: { policy: 'learned', provision_seconds: fixed_seconds, ceiling_seconds: 900 } });
  await record(evenBoots(100, honest_seconds / 1.5), 0);
  for (const at of [1, day + 2]) await pass(at);
  expect(await budget(), 'what honest boots taught').toBe(honest_seconds);
});
afterEach(() => stage.close());

test('a node that registers arbitrarily late moves the budget by at most 25 % a day, up to the ceiling', async () => {
  const begins = 3 * day;
  let former = honest_seconds;
  for (let at = 0; at < 8; at++) {
    await record(many(5, 1e6, 'late'), begins + at * day);
    for (let hour = 0; hour < 24; hour += 4) await pass(begins + at * day + hour * 3600 + at + 1);
    const next = await budget();
    expect(next).toBeLessThanOrEqual(former * (1 + maxMovePerDay) + 1e-9);
    former = next;
  }
  expect(former).toBeLessThanOrEqual(900);
});

test('a mass outage does not move the budget, nor does one without usable boots beyond the daily limit', async () => {
  await record(many(300, honest_seconds, 'timed_out'), 3 * day);
  await pass(3 * day + 1);
  expect(await budget()).toBe(honest_seconds);
  await record(many(400, 5, 'cancelled'), 3 * day + 5);
  await pass(3 * day + 6);
  // All of the newest 500 failed: without usable boots it returns towards the fixed budget, within
  // the daily limit.
  expect(await budget()).toBeLessThanOrEqual(honest_seconds * (1 + maxMovePerDay));
  expect(await budget()).toBeLessThanOrEqual(fixed_seconds);
});

test('a clock that jumps a year ahead and back moves the budget by one step, and learning continues', async () => {
  await pass(365 * day);
  const ahead = await budget();
  expect(ahead).toBeGreaterThan(honest_seconds);
  expect(ahead).toBeLessThanOrEqual(honest_seconds * (1 + maxMovePerDay));
  await pass(3 * day);
  const back = await budget();
  expect(back).toBeGreaterThanOrEqual(ahead * (1 - maxMovePerDay));
  for (let at = 4; at < 8; at++) await pass(at * day + at);
  expect(await budget()).toBe(honest_seconds);
});

const say = (provision_seconds: number, at: number) =>
  stage.db.transaction((tx) =>
    declarePool(tx, 'build', { driver: 'external', budgets: { policy: 'learned', provision_seconds } }, stage.at(at)),
  );

test('a budget set by an operator during a pass stands for a day, then moves once a day', async () => {
  await say(1000, 3 * day + 10);
  for (const at of [5, 65, 2 * 3600]) await pass(3 * day + at);
  expect((await currentPool(stage.db, 'build'))?.document.learned?.seconds).toBeNull();
  for (const at of [0, 2, 4]) await pass(5 * day + at * 3600);
  expect((await currentPool(stage.db, 'build'))?.document.learned?.seconds).toBe(750);
});

test('a budget set under a clock that jumped ahead still allows one move a day', async () => {
  await say(1000, 33 * day);
  for (let hour = 0; hour < 24; hour += 2) await pass(4 * day + hour * 3600);
  expect((await currentPool(stage.db, 'build'))?.document.learned?.seconds).toBe(750);
  await pass(5 * day + 3600);
  expect((await currentPool(stage.db, 'build'))?.document.learned?.seconds).toBe(562.5);
});

test('ignores impossible durations', async () => {
  await record([...many(40, -500, 'completed'), ...many(40, 0, 'late')], 3 * day);
  await pass(3 * day + 1);
  expect(await budget()).toBe(honest_seconds);
});

test('a pool that fails stops no other, and is named in the error', async () => {
  await stage.pool('later', { budgets: { policy: 'learned', provision_seconds: fixed_seconds } });
  await recordBoots(stage.db, { pool: 'later', boots: evenBoots(40, 200), until: stage.at(3 * day) });
  await record(many(40, 1e6, 'late'), 3 * day);
  // Its move cannot be written: one with this time already exists.
  await stage.db.query('insert into budget_changes (pool, at, from_seconds, seconds) values ($1, $2, $3, $3)', [
    ...['build', stage.at(3 * day + 1), honest_seconds],
  ]);
  await expect(pass(3 * day + 1)).rejects.toThrow(/build: duplicate key/);
  expect((await currentPool(stage.db, 'later'))?.document.learned?.seconds).toBe(300);
  expect(await budget(), 'of the one that failed').toBe(honest_seconds);
});
