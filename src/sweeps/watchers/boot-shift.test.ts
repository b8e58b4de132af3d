/** A finding opens once when the boots of a pool become slower, and can be accepted or resolved. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { acceptFinding } from '../../operations/actions/findings.ts';
import { type FindingRow, findingRow, standingFindings } from '../../store/rows/findings.ts';
import { deletePool } from '../../store/rows/pools.ts';
import { recordStagedBoots } from '../../store/testing/staged-boots.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { bootShift } from './boot-shift.ts';

const day = 86_400;
const hour = 3600;

let fixture: RuleFixture;
let recorded: number;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  recorded = 0;
  await fixture.declarePool('gpu', { driver: 'ec2', budgets: { provision_seconds: 720 } });
});
afterEach(() => fixture.close());

interface Boots {
  count: number;
  /** Start of the first boot, in seconds from the start. */
  from: number;
  every_seconds?: number;
  pull_seconds?: number;
  generation?: number;
  image?: string;
}

async function addBoots({ pull_seconds = 107, from, ...wanted }: Boots): Promise<void> {
  const stages = { 'image-pull': pull_seconds, 'set-up': 270 };
  const common = { pool: 'gpu', image: 'a', every_seconds: hour, after: recorded, ...wanted };
  await recordStagedBoots(fixture.db, { ...common, stages, from: fixture.at(from) });
  recorded += wanted.count;
}

/** The usual boots of the days before the start. */
const addUsualBoots = () => addBoots({ count: 120, from: -120 * hour });
const runSweep = (seconds: number, sweep = bootShift(fixture.services)) => sweep.run(fixture.at(seconds));
const readFindings = () => fixture.db.query<FindingRow>('select * from findings order by first_seen_at, finding_id');
const readFactKinds = async () =>
  (
    await fixture.db.query<{ kind: string }>(`select kind from evidence where kind like 'finding.%' order by xid, seq`)
  ).map(({ kind }) => kind);
const readOnlyFinding = async () => {
  const [finding] = await standingFindings(fixture.db, ['boots_slower']);
  if (!finding) throw new Error('there is no finding');
  return finding;
};

test('opens one finding when image pulls take twice as long', async () => {
  await addUsualBoots();
  const sweep = bootShift(fixture.services);
  expect(await runSweep(0, sweep)).toMatchObject({ decided: 0 });
  await addBoots({ pull_seconds: 250, count: 30, from: 0 });
  await fixture.clock.advance(day * 1000);
  expect(await runSweep(31 * hour, sweep)).toMatchObject({ decided: 1 });
  await fixture.clock.advance(day * 1000);
  expect(await runSweep(31 * hour + 60, bootShift(fixture.services))).toMatchObject({ decided: 0 });
  const finding = await readOnlyFinding();
  expect(finding).toMatchObject({
    kind: 'boot-shift',
    status: 'open',
    subject: 'gpu/provision',
    pool: 'gpu',
    ours: { boots: 120, budget_seconds: 720, past_budget_share: 0 },
    theirs: {
      since: fixture.at(0).toISOString(),
      boots: 30,
      past_budget_share: 0,
      generation: null,
      stages: [{ stage: 'image-pull' }],
    },
  });
  expect(await readFactKinds()).toEqual(['finding.opened']);
  const [reported] = await fixture.db.query<{ summary: string }>(
    `select summary from evidence where kind = 'finding.opened'`,
  );
  expect(reported?.summary).toMatch(
    /^found: boots take 1\.4 times as long since .*Z: median 5\d\d s, before 39\d s\. The stage image-pull went from 11\d s to 26\d s \(2\.\d times as long\)\. None of them has exceeded the budget of 720 s yet; the slowest took 5\d\d s$/,
  );
});

test('closes the finding when boots are as fast as before, or the pool is deleted', async () => {
  await addUsualBoots();
  await addBoots({ pull_seconds: 250, count: 30, from: 0 });
  await runSweep(31 * hour);
  await addBoots({ count: 25, from: 31 * hour });
  await runSweep(57 * hour);
  expect(await readFindings()).toMatchObject([{ status: 'resolved', reason: 'boots are as fast as before again' }]);
  await addBoots({ pull_seconds: 400, count: 40, from: 57 * hour });
  await runSweep(98 * hour);
  expect(await readOnlyFinding()).toMatchObject({ status: 'open' });
  await fixture.db.transaction((tx) => deletePool(tx, 'gpu', fixture.at(98 * hour)));
  await runSweep(98 * hour + 60);
  expect((await readFindings()).at(-1)).toMatchObject({ status: 'resolved', reason: 'the pool was deleted' });
});

test('after the finding is accepted, reports only boots that are slower still', async () => {
  await addUsualBoots();
  await addBoots({ pull_seconds: 250, count: 60, from: 0 });
  await runSweep(61 * hour);
  const { finding_id } = await readOnlyFinding();
  const caller = { actor: { kind: 'person', name: 'ann' } } as unknown as Parameters<typeof acceptFinding>[3];
  const accept = (over: object) => acceptFinding(fixture.services, finding_id, { reason: 'known', ...over }, caller);
  expect((await accept({ dry_run: true })).says).toContain('only boots that become even slower are reported');
  await accept({});
  await runSweep(61 * hour + 60);
  expect(await readOnlyFinding()).toMatchObject({ finding_id, status: 'accepted' });
  await addBoots({ pull_seconds: 450, count: 25, from: 62 * hour });
  await runSweep(88 * hour);
  expect((await findingRow(fixture.db, finding_id))?.closed_at).not.toBeNull();
  expect(await readOnlyFinding()).toMatchObject({
    status: 'open',
    theirs: { since: fixture.at(62 * hour).toISOString() },
  });
});

test('names the changed generation and image, and resolves the finding after seven days', async () => {
  await addUsualBoots();
  await addBoots({ pull_seconds: 250, count: 40, from: 0, generation: 7, image: 'b' });
  await runSweep(41 * hour);
  expect(await readOnlyFinding()).toMatchObject({
    theirs: { generation: 7, former_generation: 1, image: 'b', former_image: 'a' },
  });
  await runSweep(7 * day);
  expect(await readFindings()).toMatchObject([
    { status: 'resolved', reason: expect.stringContaining('lasted 7 days') },
  ]);
});

test('updates the finding at once when the budget changes', async () => {
  await addUsualBoots();
  await addBoots({ pull_seconds: 250, count: 40, from: 0 });
  await runSweep(41 * hour);
  await fixture.declarePool('gpu', { driver: 'ec2', budgets: { provision_seconds: 545 } });
  await runSweep(41 * hour + 60);
  const { ours, theirs, passes } = await readOnlyFinding();
  expect(ours).toMatchObject({ budget_seconds: 545, past_budget_share: 0 });
  expect(theirs.past_budget_share).toBeGreaterThan(0.3);
  await runSweep(41 * hour + 120);
  expect((await readOnlyFinding()).passes, 'updated only once').toBe(passes);
});

test('opens no finding if slow boots merely end last among many concurrent ones', async () => {
  await addUsualBoots();
  await addBoots({ count: 200, from: 0, every_seconds: 0.01 });
  await fixture.db.query(
    `update boot_samples set seconds = varied.seconds, at = started_at + make_interval(secs => varied.seconds)
     from (select node_id, 200 + (hashtext(node_id)::bigint & 511) as seconds from boot_samples) varied where varied.node_id = boot_samples.node_id`,
  );
  await runSweep(hour);
  expect(await readFindings()).toEqual([]);
});

/** The rule on a store that fails the first statement with this text, or the first transaction. */
function sweepWithFailure(failingText: string) {
  let broken = false;
  const db: typeof fixture.db = Object.create(fixture.db, {
    transaction: {
      value: (work: Parameters<typeof fixture.db.transaction>[0]) => {
        if (failingText === 'commit' && !broken) {
          broken = true;
          throw new Error('it broke');
        }
        return fixture.db.transaction(work);
      },
    },
    query: {
      value: (text: string, values: unknown[]) => {
        if (!broken && text.includes(failingText)) {
          broken = true;
          throw new Error('it broke');
        }
        return fixture.db.query(text, values);
      },
    },
  });
  return bootShift({ ...fixture.services, db });
}

async function addSlowerBoots(): Promise<void> {
  await addUsualBoots();
  await addBoots({ pull_seconds: 250, count: 30, from: 0 });
}

test('opens the finding in the next run if it could not be written, even without new boots', async () => {
  await addSlowerBoots();
  const sweep = sweepWithFailure('commit');
  await expect(runSweep(31 * hour, sweep)).rejects.toThrow('it broke');
  await fixture.clock.advance(day * 1000);
  expect(await runSweep(33 * hour, sweep)).toMatchObject({ decided: 1 });
});

test('a pool whose boots cannot be read does not stop the others, is named in the error, and is retried', async () => {
  await addSlowerBoots();
  await fixture.db.query(
    `insert into pools (name, driver, generation, budget_said_at, created_at, updated_at) select 'also', driver, 1, created_at, created_at, updated_at from pools`,
  );
  await fixture.db.query(
    `insert into pool_generations (pool, generation, document, created_at) select 'also', 1, document, created_at from pool_generations`,
  );
  await fixture.db.query(
    `insert into boot_samples (node_instance_id, node_id, phase, pool, pool_generation, started_at, seconds, outcome, at)
     select 'also ' || node_instance_id, node_id, phase, 'also', 1, started_at, seconds, outcome, at from boot_samples`,
  );
  const sweep = sweepWithFailure('from boot_stages');
  await expect(runSweep(31 * hour, sweep)).rejects.toThrow('also/provision: it broke');
  expect((await readFindings()).map(({ subject }) => subject)).toEqual(['gpu/provision']);
  await fixture.clock.advance(day * 1000);
  expect(await runSweep(33 * hour, sweep)).toMatchObject({ decided: 1 });
});

test('skips no boots after the clock jumped ahead and back', async () => {
  await addUsualBoots();
  const sweep = bootShift(fixture.services);
  await runSweep(9 * day, sweep);
  await addBoots({ pull_seconds: 250, count: 30, from: 0 });
  await fixture.clock.advance(day * 1000);
  expect(await runSweep(31 * hour, sweep)).toMatchObject({ decided: 1 });
});
