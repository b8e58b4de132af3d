/**
 * Pools that learn: each move is recorded with its curve, by at most 25 % a day, and none while the
 * brake holds.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsBetween } from '../../base/clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { bootsSinceChange } from '../../store/boots/boot-samples.ts';
import { currentPool, declarePool, poolGeneration } from '../../store/rows/pools.ts';
import { evenBoots, recordBoots } from '../../store/testing/recorded-boots.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { provisionDeadline } from '../rules/provision-deadline.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { learnedBudget } from './learned-budget.ts';

const day = 86_400;
const learns = { policy: 'learned', provision_seconds: 720 } as const;
let stage: Stage;

beforeEach(async () => {
  stage = ruleStage(await testDatabase());
});
afterEach(() => stage.close());

const pass = (seconds: number) => learnedBudget(stage.services).run(stage.at(seconds));

async function budget(name = 'build') {
  const pool = await currentPool(stage.db, name);
  if (!pool) throw new Error('no pool');
  const { seconds, source } = budgetOf('provision', pool.document, stage.environment, null);
  return { seconds, source, because: pool.document.learned?.because };
}

const declare = (document: Partial<PoolDocument>, at: number) =>
  stage.db.transaction((tx) => declarePool(tx, 'build', { driver: 'external', ...document }, stage.at(at)));

const moves = () =>
  stage.db.query<{ at: Date; actor: object; data: Record<string, unknown> & { lesson: { curve: object[] } | null } }>(
    `select at, actor, data from evidence where kind = 'budget.learned' order by seq`,
  );

test('moves a budget towards the recorded boots, each move recorded with its curve', async () => {
  await stage.pool('build', { budgets: learns });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  expect(await budget()).toMatchObject({ seconds: 720, source: 'pool' });

  for (let hour = 0; hour <= 4 * 24; hour++) await pass(hour * 3600 + 1);

  expect(await budget()).toMatchObject({ seconds: 303.75, source: 'learned' });
  const recorded = await moves();
  expect(recorded.map(({ data }) => [data.from_seconds, data.seconds])).toEqual([
    [720, 540],
    [540, 405],
    [405, 303.75],
  ]);
  for (const [place, { at, data, actor }] of recorded.entries()) {
    expect(secondsBetween(stage.start, at)).toBeGreaterThanOrEqual(place * day);
    expect(data).toMatchObject({ rule: 'learned-budget', pool: 'build', aim_seconds: 300 });
    expect(data.lesson).toMatchObject({
      stratum: 'make-in-zone',
      basis: 'largest',
      basis_seconds: 200,
      completions: 60,
    });
    expect(data.lesson?.curve.length).toBeGreaterThan(50);
    expect(actor).toMatchObject({ kind: 'rule', id: 'learned-budget' });
  }
});

test('keeps the fixed budget if there are too few boots, and says so', async () => {
  await stage.pool('build', { budgets: learns });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(29, 200), until: stage.start });
  await pass(1);
  expect(await budget()).toEqual({
    seconds: 720,
    source: 'pool',
    because: '29 of the required 30 completed boots are recorded, so the fixed budget of 720 s applies',
  });
  expect(await moves()).toEqual([]);
});

test('does not learn for a pool with a fixed policy', async () => {
  await stage.pool('build', { budgets: { provision_seconds: 720 } });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  await pass(1);
  expect(await budget()).toEqual({ seconds: 720, source: 'pool', because: undefined });
});

test('does not move while the brake holds, and continues afterwards', async () => {
  await stage.pool('build', { budgets: learns, zone: 'a' });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start, zone: 'a' });
  await stage.db.query(
    `insert into brake_holds (hold_id, kind, rule, scope, name, reason, negative, population, since, held_until)
     values ('hld_1', 'mass-failure', 'provision-deadline', 'zone', 'a', 'many at once', 9, 10, $1, $2)`,
    [stage.start, stage.at(3600)],
  );
  expect(await pass(1)).toMatchObject({ decided: 0, held: 1 });
  expect(await budget()).toMatchObject({ seconds: 720, source: 'pool' });
  await stage.db.query('update brake_holds set ended_at = $1', [stage.at(10)]);
  expect(await pass(11)).toMatchObject({ decided: 1 });
  expect(await budget()).toMatchObject({ seconds: 540, source: 'learned' });
});

test('starts over with a new image: old boots may raise the budget but not lower it', async () => {
  await stage.pool('build', { budgets: learns, spec: { image: 'a' } });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  await pass(1);
  expect(await budget()).toMatchObject({ seconds: 540 });

  await declare({ budgets: learns, spec: { image: 'b' } }, 10);
  expect(await budget()).toMatchObject({ seconds: 720, source: 'pool' });
  expect(await bootsSinceChange(stage.db, 'build', 'provision'), 'the budget changed').toMatchObject({
    at: stage.at(10),
  });
  await pass(11);
  expect(await budget()).toMatchObject({ seconds: 720, because: expect.stringContaining('never lower it') });
  expect((await poolGeneration(stage.db, 'build', 1))?.learned, 'of a machine of the former image').toBeNull();

  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(40, 100), until: stage.at(20), generation: 2 });
  await pass(21);
  expect(await budget()).toMatchObject({ seconds: 540, source: 'learned' });
});

test('keeps the learned budget if a change affects neither image nor budget', async () => {
  await stage.pool('build', { budgets: learns });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  await pass(1);
  await declare({ budgets: learns, max_nodes: 7 }, 10);
  expect(await budget()).toMatchObject({ seconds: 540, source: 'learned' });
});

test('a budget set by an operator applies at once, stands for a day, and learning continues from it', async () => {
  await stage.pool('build', { budgets: learns });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  await pass(1);
  await declare({ budgets: { ...learns, provision_seconds: 360 } }, 10);
  for (const at of [11, day]) {
    await pass(at);
    expect(await budget()).toMatchObject({
      seconds: 360,
      source: 'pool',
      because: expect.stringContaining('operator'),
    });
  }
  await pass(2 * day);
  expect(await budget()).toMatchObject({ seconds: 300, source: 'learned' });
});

test('applies the ceiling of the runtime class if the pool has none', async () => {
  stage.environment.runtime_classes = { hermes: { provision_seconds: 720, ceiling_seconds: 800 } };
  await stage.pool('build', { budgets: { policy: 'learned' }, runtime_class: 'hermes' });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 700), until: stage.start });
  await pass(1);
  expect(await budget()).toMatchObject({ seconds: 800, source: 'learned' });
});

test('prefers boots of the zone, then of other zones, then of the class', async () => {
  await stage.pool('build', { budgets: learns, zone: 'a', runtime_class: 'hermes' });
  await stage.pool('other', { runtime_class: 'hermes' });
  const stratum = async () => (await currentPool(stage.db, 'build'))?.document.learned?.stratum;
  const recorded = { pool: 'build', runtime_class: 'hermes' };
  await recordBoots(stage.db, { ...recorded, pool: 'other', boots: evenBoots(40, 1000), until: stage.start });
  await pass(1);
  expect(await stratum()).toBe('class');
  await recordBoots(stage.db, { ...recorded, boots: evenBoots(40, 400), until: stage.at(2), zone: 'b' });
  await pass(3);
  expect(await stratum()).toBe('make');
  await recordBoots(stage.db, { ...recorded, boots: evenBoots(40, 600), until: stage.at(4), zone: 'a' });
  await pass(5);
  expect(await stratum()).toBe('make-in-zone');
});

test('a boot that was granted more time keeps its rescue window', async () => {
  await stage.pool('build', { driver: 'ec2', budgets: learns });
  const [id] = await stage.nodes({ pool: 'build', status: 'provisioning', count: 1, deadline_at: stage.at(10) });
  await stage.db.query(`update nodes set budget_seconds = 720, budget_source = 'learned'`);
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  await pass(1);
  expect(await budget()).toMatchObject({ seconds: 540, source: 'learned' });
  await provisionDeadline(stage.services).run(stage.at(11));
  const [node] = id ? await stage.rows([id]) : [];
  expect(node).toMatchObject({ status: 'failed', budget_seconds: 360, deadline_at: stage.at(11 + 360) });
});

test('two replicas at once make one move', async () => {
  await stage.pool('build', { budgets: learns });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 200), until: stage.start });
  await Promise.all([pass(1), pass(1), pass(2)]);
  expect(await moves()).toHaveLength(1);
});

test('forgets boots older than thirty days and moves back', async () => {
  await stage.pool('build', { budgets: learns });
  await recordBoots(stage.db, { pool: 'build', boots: evenBoots(60, 300), until: stage.start });
  for (let at = 0; at < 3; at++) await pass(at * day + at + 1);
  expect(await budget()).toMatchObject({ seconds: 450 });
  for (let at = 31; at < 35; at++) await pass(at * (day + 1));
  expect(await budget()).toMatchObject({ seconds: 720, source: 'pool' });
  expect((await moves()).at(-1)?.data).toMatchObject({ seconds: 720, lesson: null });
});
