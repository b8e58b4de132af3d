/**
 * Boots that become slower, on rows of samples and stages: found once, named, accepted, and
 * resolved.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { acceptFinding } from '../../operations/actions/findings.ts';
import { type FindingRow, findingRow, standingFindings } from '../../store/rows/findings.ts';
import { deletePool } from '../../store/rows/pools.ts';
import { recordStagedBoots } from '../../store/testing/staged-boots.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { bootShift } from './boot-shift.ts';

const day = 86_400;
const hour = 3600;

let stage: Stage;
let recorded: number;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  recorded = 0;
  await stage.pool('gpu', { driver: 'ec2', budgets: { provision_seconds: 720 } });
});
afterEach(() => stage.close());

interface Boots {
  count: number;
  /** Start of the first boot, in seconds from the start. */
  from: number;
  every_seconds?: number;
  pull_seconds?: number;
  generation?: number;
  image?: string;
}

async function booted({ pull_seconds = 107, from, ...wanted }: Boots): Promise<void> {
  const stages = { 'image-pull': pull_seconds, 'set-up': 270 };
  const made = { pool: 'gpu', image: 'a', every_seconds: hour, after: recorded, ...wanted };
  await recordStagedBoots(stage.db, { ...made, stages, from: stage.at(from) });
  recorded += wanted.count;
}

const lastWeek = () => booted({ count: 120, from: -120 * hour });
const look = (seconds: number, sweep = bootShift(stage.services)) => sweep.run(stage.at(seconds));
const findings = () => stage.db.query<FindingRow>('select * from findings order by first_seen_at, finding_id');
const facts = async () =>
  (
    await stage.db.query<{ kind: string }>(`select kind from evidence where kind like 'finding.%' order by xid, seq`)
  ).map(({ kind }) => kind);
const theOne = async () => {
  const [finding] = await standingFindings(stage.db, ['boots_slower']);
  if (!finding) throw new Error('nothing was found');
  return finding;
};

test('finds and reports an image pull that is twice as slow, once', async () => {
  await lastWeek();
  const sweep = bootShift(stage.services);
  expect(await look(0, sweep)).toMatchObject({ decided: 0 });
  await booted({ pull_seconds: 250, count: 30, from: 0 });
  await stage.clock.advance(day * 1000);
  expect(await look(31 * hour, sweep)).toMatchObject({ decided: 1 });
  await stage.clock.advance(day * 1000);
  expect(await look(31 * hour + 60, bootShift(stage.services))).toMatchObject({ decided: 0 });
  const finding = await theOne();
  expect(finding).toMatchObject({
    kind: 'boot-shift',
    status: 'open',
    subject: 'gpu/provision',
    pool: 'gpu',
    ours: { boots: 120, budget_seconds: 720, past_budget_share: 0 },
    theirs: {
      since: stage.at(0).toISOString(),
      boots: 30,
      past_budget_share: 0,
      generation: null,
      stages: [{ stage: 'image-pull' }],
    },
  });
  expect(await facts()).toEqual(['finding.opened']);
  const [reported] = await stage.db.query<{ summary: string }>(
    `select summary from evidence where kind = 'finding.opened'`,
  );
  expect(reported?.summary).toMatch(
    /^found: boots take 1\.4 times as long since .*Z: median 5\d\d s, before 39\d s\. The stage image-pull went from 11\d s to 26\d s \(2\.\d times as long\)\. None of them has exceeded the budget of 720 s yet; the slowest took 5\d\d s$/,
  );
});

test('closes the finding when boots are as before or the pool is gone', async () => {
  await lastWeek();
  await booted({ pull_seconds: 250, count: 30, from: 0 });
  await look(31 * hour);
  await booted({ count: 25, from: 31 * hour });
  await look(57 * hour);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: 'boots take no longer than before by now' }]);
  await booted({ pull_seconds: 400, count: 40, from: 57 * hour });
  await look(98 * hour);
  expect(await theOne()).toMatchObject({ status: 'open' });
  await stage.db.transaction((tx) => deletePool(tx, 'gpu', stage.at(98 * hour)));
  await look(98 * hour + 60);
  expect((await findings()).at(-1)).toMatchObject({ status: 'resolved', reason: 'the pool was deleted' });
});

test('after acceptance reports only boots that are slower still', async () => {
  await lastWeek();
  await booted({ pull_seconds: 250, count: 60, from: 0 });
  await look(61 * hour);
  const { finding_id } = await theOne();
  const caller = { actor: { kind: 'person', name: 'ann' } } as unknown as Parameters<typeof acceptFinding>[3];
  const accept = (over: object) => acceptFinding(stage.services, finding_id, { reason: 'known', ...over }, caller);
  expect((await accept({ dry_run: true })).says).toContain('only boots that get slower still are reported');
  await accept({});
  await look(61 * hour + 60);
  expect(await theOne()).toMatchObject({ finding_id, status: 'accepted' });
  await booted({ pull_seconds: 450, count: 25, from: 62 * hour });
  await look(88 * hour);
  expect((await findingRow(stage.db, finding_id))?.closed_at).not.toBeNull();
  expect(await theOne()).toMatchObject({ status: 'open', theirs: { since: stage.at(62 * hour).toISOString() } });
});

test('treats a lasting pace as the usual one, and names a changed pool', async () => {
  await lastWeek();
  await booted({ pull_seconds: 250, count: 40, from: 0, generation: 7, image: 'b' });
  await look(41 * hour);
  expect(await theOne()).toMatchObject({
    theirs: { generation: 7, former_generation: 1, image: 'b', former_image: 'a' },
  });
  await look(7 * day);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: expect.stringContaining('lasted 7 days') }]);
});

test('reports a changed budget at once', async () => {
  await lastWeek();
  await booted({ pull_seconds: 250, count: 40, from: 0 });
  await look(41 * hour);
  await stage.pool('gpu', { driver: 'ec2', budgets: { provision_seconds: 545 } });
  await look(41 * hour + 60);
  const { ours, theirs, passes } = await theOne();
  expect(ours).toMatchObject({ budget_seconds: 545, past_budget_share: 0 });
  expect(theirs.past_budget_share).toBeGreaterThan(0.3);
  await look(41 * hour + 120);
  expect((await theOne()).passes, 'and once').toBe(passes);
});

test('does not report slow boots that merely end last among many concurrent ones', async () => {
  await lastWeek();
  await booted({ count: 200, from: 0, every_seconds: 0.01 });
  await stage.db.query(
    `update boot_samples set seconds = varied.seconds, at = started_at + make_interval(secs => varied.seconds)
     from (select node_id, 200 + (hashtext(node_id)::bigint & 511) as seconds from boot_samples) varied where varied.node_id = boot_samples.node_id`,
  );
  await look(hour);
  expect(await findings()).toEqual([]);
});

/** The same rule over a store that fails the first statement containing these words. */
function breaking(words: string) {
  let broken = false;
  const db: typeof stage.db = Object.create(stage.db, {
    transaction: {
      value: (work: Parameters<typeof stage.db.transaction>[0]) => {
        if (words === 'commit' && !broken) {
          broken = true;
          throw new Error('it broke');
        }
        return stage.db.transaction(work);
      },
    },
    query: {
      value: (text: string, values: unknown[]) => {
        if (!broken && text.includes(words)) {
          broken = true;
          throw new Error('it broke');
        }
        return stage.db.query(text, values);
      },
    },
  });
  return bootShift({ ...stage.services, db });
}

async function slower(): Promise<void> {
  await lastWeek();
  await booted({ pull_seconds: 250, count: 30, from: 0 });
}

test('finds a shift again if it could not be written, even without new boots', async () => {
  await slower();
  const sweep = breaking('commit');
  await expect(look(31 * hour, sweep)).rejects.toThrow('it broke');
  await stage.clock.advance(day * 1000);
  expect(await look(33 * hour, sweep)).toMatchObject({ decided: 1 });
});

test('a pool that fails stops no other, is named and retried', async () => {
  await slower();
  await stage.db.query(
    `insert into pools (name, driver, generation, budget_said_at, created_at, updated_at) select 'also', driver, 1, created_at, created_at, updated_at from pools`,
  );
  await stage.db.query(
    `insert into pool_generations (pool, generation, document, created_at) select 'also', 1, document, created_at from pool_generations`,
  );
  await stage.db.query(
    `insert into boot_samples (node_instance_id, node_id, phase, pool, pool_generation, started_at, seconds, outcome, at)
     select 'also ' || node_instance_id, node_id, phase, 'also', 1, started_at, seconds, outcome, at from boot_samples`,
  );
  const sweep = breaking('from boot_stages');
  await expect(look(31 * hour, sweep)).rejects.toThrow('also/provision: it broke');
  expect((await findings()).map(({ subject }) => subject)).toEqual(['gpu/provision']);
  await stage.clock.advance(day * 1000);
  expect(await look(33 * hour, sweep)).toMatchObject({ decided: 1 });
});

test('a clock that jumped ahead and back skips no boots', async () => {
  await lastWeek();
  const sweep = bootShift(stage.services);
  await look(9 * day, sweep);
  await booted({ pull_seconds: 250, count: 30, from: 0 });
  await stage.clock.advance(day * 1000);
  expect(await look(31 * hour, sweep)).toMatchObject({ decided: 1 });
});
