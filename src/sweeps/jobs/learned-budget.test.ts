/**
 * Learned budgets: each move is at most 25 % a day and recorded with its curve. A budget does not
 * move while the brake holds.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsBetween } from '../../base/clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { countBootsSinceChange } from '../../store/boots/boot-samples.ts';
import { currentPool, declarePool, readGenerationDocument } from '../../store/rows/pools.ts';
import { evenBoots, recordBoots } from '../../store/testing/recorded-boots.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { provisionDeadline } from '../rules/provision-deadline.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { learnedBudget } from './learned-budget.ts';

const day = 86_400;
const learnedPolicy = { policy: 'learned', provision_seconds: 720 } as const;
let fixture: RuleFixture;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
});
afterEach(() => fixture.close());

const runPass = (seconds: number) => learnedBudget(fixture.services).run(fixture.at(seconds));

async function readBudget(name = 'build') {
  const pool = await currentPool(fixture.db, name);
  if (!pool) throw new Error('no pool');
  const { seconds, source } = budgetOf('provision', pool.document, fixture.environment, null);
  return { seconds, source, because: pool.document.learned?.because };
}

const declare = (document: Partial<PoolDocument>, at: number) =>
  fixture.db.transaction((tx) => declarePool(tx, 'build', { driver: 'external', ...document }, fixture.at(at)));

const readMoves = () =>
  fixture.db.query<{ at: Date; actor: object; data: Record<string, unknown> & { lesson: { curve: object[] } | null } }>(
    `select at, actor, data from evidence where kind = 'budget.learned' order by seq`,
  );

test('moves a budget towards the recorded boots, and records each move with its curve', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  expect(await readBudget()).toMatchObject({ seconds: 720, source: 'pool' });

  for (let hour = 0; hour <= 4 * 24; hour++) await runPass(hour * 3600 + 1);

  expect(await readBudget()).toMatchObject({ seconds: 303.75, source: 'learned' });
  const recorded = await readMoves();
  expect(recorded.map(({ data }) => [data.from_seconds, data.seconds])).toEqual([
    [720, 540],
    [540, 405],
    [405, 303.75],
  ]);
  for (const [index, { at, data, actor }] of recorded.entries()) {
    expect(secondsBetween(fixture.start, at)).toBeGreaterThanOrEqual(index * day);
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

test('keeps the fixed budget if there are too few boots, and gives that as the reason', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(29, 200), until: fixture.start });
  await runPass(1);
  expect(await readBudget()).toEqual({
    seconds: 720,
    source: 'pool',
    because: '29 of the required 30 completed boots are recorded, so the fixed budget of 720 s applies',
  });
  expect(await readMoves()).toEqual([]);
});

test('does not change the budget of a pool with a fixed policy', async () => {
  await fixture.declarePool('build', { budgets: { provision_seconds: 720 } });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  await runPass(1);
  expect(await readBudget()).toEqual({ seconds: 720, source: 'pool', because: undefined });
});

test('does not move while the brake holds, and continues afterwards', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy, zone: 'a' });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start, zone: 'a' });
  await fixture.db.query(
    `insert into brake_holds (hold_id, kind, rule, scope, name, reason, negative, population, since, held_until)
     values ('hld_1', 'mass-failure', 'provision-deadline', 'zone', 'a', 'many at once', 9, 10, $1, $2)`,
    [fixture.start, fixture.at(3600)],
  );
  expect(await runPass(1)).toMatchObject({ decided: 0, held: 1 });
  expect(await readBudget()).toMatchObject({ seconds: 720, source: 'pool' });
  await fixture.db.query('update brake_holds set ended_at = $1', [fixture.at(10)]);
  expect(await runPass(11)).toMatchObject({ decided: 1 });
  expect(await readBudget()).toMatchObject({ seconds: 540, source: 'learned' });
});

test('starts over with a new image: old boots may raise the budget but not lower it', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy, spec: { image: 'a' } });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  await runPass(1);
  expect(await readBudget()).toMatchObject({ seconds: 540 });

  await declare({ budgets: learnedPolicy, spec: { image: 'b' } }, 10);
  expect(await readBudget()).toMatchObject({ seconds: 720, source: 'pool' });
  expect(
    await countBootsSinceChange(fixture.db, 'build', 'provision'),
    'boots are counted from the change',
  ).toMatchObject({
    at: fixture.at(10),
  });
  await runPass(11);
  expect(await readBudget()).toMatchObject({ seconds: 720, because: expect.stringContaining('never lower it') });
  expect(
    (await readGenerationDocument(fixture.db, 'build', 1))?.learned,
    'a machine of the former image has no learned budget',
  ).toBeNull();

  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(40, 100), until: fixture.at(20), generation: 2 });
  await runPass(21);
  expect(await readBudget()).toMatchObject({ seconds: 540, source: 'learned' });
});

test('keeps the learned budget if a change affects neither image nor budget', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  await runPass(1);
  await declare({ budgets: learnedPolicy, max_nodes: 7 }, 10);
  expect(await readBudget()).toMatchObject({ seconds: 540, source: 'learned' });
});

test('a budget set by an operator applies at once and for a day, and learning continues from it', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  await runPass(1);
  await declare({ budgets: { ...learnedPolicy, provision_seconds: 360 } }, 10);
  for (const at of [11, day]) {
    await runPass(at);
    expect(await readBudget()).toMatchObject({
      seconds: 360,
      source: 'pool',
      because: expect.stringContaining('operator'),
    });
  }
  await runPass(2 * day);
  expect(await readBudget()).toMatchObject({ seconds: 300, source: 'learned' });
});

test('applies the ceiling of the runtime class if the pool has none', async () => {
  fixture.environment.runtime_classes = { hermes: { provision_seconds: 720, ceiling_seconds: 800 } };
  await fixture.declarePool('build', { budgets: { policy: 'learned' }, runtime_class: 'hermes' });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 700), until: fixture.start });
  await runPass(1);
  expect(await readBudget()).toMatchObject({ seconds: 800, source: 'learned' });
});

test('prefers boots of the zone, then of other zones, then of the class', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy, zone: 'a', runtime_class: 'hermes' });
  await fixture.declarePool('other', { runtime_class: 'hermes' });
  const readStratum = async () => (await currentPool(fixture.db, 'build'))?.document.learned?.stratum;
  const recorded = { pool: 'build', runtime_class: 'hermes' };
  await recordBoots(fixture.db, { ...recorded, pool: 'other', boots: evenBoots(40, 1000), until: fixture.start });
  await runPass(1);
  expect(await readStratum()).toBe('class');
  await recordBoots(fixture.db, { ...recorded, boots: evenBoots(40, 400), until: fixture.at(2), zone: 'b' });
  await runPass(3);
  expect(await readStratum()).toBe('make');
  await recordBoots(fixture.db, { ...recorded, boots: evenBoots(40, 600), until: fixture.at(4), zone: 'a' });
  await runPass(5);
  expect(await readStratum()).toBe('make-in-zone');
});

test('a failed boot gets the rescue window of its own budget, not of a later one', async () => {
  await fixture.declarePool('build', { driver: 'ec2', budgets: learnedPolicy });
  const [id] = await fixture.addNodes({ pool: 'build', status: 'provisioning', count: 1, deadline_at: fixture.at(10) });
  await fixture.db.query(`update nodes set budget_seconds = 720, budget_source = 'learned'`);
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  await runPass(1);
  expect(await readBudget()).toMatchObject({ seconds: 540, source: 'learned' });
  await provisionDeadline(fixture.services).run(fixture.at(11));
  const [node] = id ? await fixture.readNodes([id]) : [];
  expect(node).toMatchObject({ status: 'failed', budget_seconds: 360, deadline_at: fixture.at(11 + 360) });
});

test('two replicas at once make one move', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 200), until: fixture.start });
  await Promise.all([runPass(1), runPass(1), runPass(2)]);
  expect(await readMoves()).toHaveLength(1);
});

test('ignores boots older than thirty days and moves back to the fixed budget', async () => {
  await fixture.declarePool('build', { budgets: learnedPolicy });
  await recordBoots(fixture.db, { pool: 'build', boots: evenBoots(60, 300), until: fixture.start });
  for (let at = 0; at < 3; at++) await runPass(at * day + at + 1);
  expect(await readBudget()).toMatchObject({ seconds: 450 });
  for (let at = 31; at < 35; at++) await runPass(at * (day + 1));
  expect(await readBudget()).toMatchObject({ seconds: 720, source: 'pool' });
  expect((await readMoves()).at(-1)?.data).toMatchObject({ seconds: 720, lesson: null });
});
