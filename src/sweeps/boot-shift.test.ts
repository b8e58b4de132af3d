/** Boots that become slower, on rows of samples and stages: found once, named, accepted, and over again. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../test/support/database.ts';
import { secondsLater } from '../base/clock.ts';
import { acceptFinding } from '../operations/findings.ts';
import { keepBootSamples } from '../store/boot-samples.ts';
import { type FindingRow, findingRow, standingFindings } from '../store/findings.ts';
import { deletePool } from '../store/pools.ts';
import { bootShift } from './boot-shift.ts';
import { ruleStage, type Stage } from './testing/stage.ts';

const day = 86_400;
const hour = 3600;

let stage: Stage;
let made: number;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  made = 0;
  await stage.pool('gpu', { driver: 'ec2', budgets: { provision_seconds: 720 } });
});
afterEach(() => stage.close());

interface Boots {
  count: number;
  /** When the first began, and how long until the next does. */
  from: number;
  every: number;
  pull_seconds: number;
  generation?: number;
  image?: string;
}

/** Their set-up varies without chance: each boot differs from the next by a little. */
async function booted({ count, from, every, pull_seconds, generation = 1, image = 'a' }: Boots): Promise<void> {
  const ids = await stage.nodes({ pool: 'gpu', count });
  const numbered = ids.map((node_id, place) => {
    const node_instance_id = node_id.replace('node_', 'inst_');
    const wobble = ((made + place) * 37) % 41;
    const started_at = stage.at(from + place * every);
    return { node_id, node_instance_id, started_at, setup: 250 + wobble, pull: pull_seconds + wobble / 4 };
  });
  made += count;
  const samples = numbered.map(({ node_id, node_instance_id, started_at, setup, pull }) => ({
    ...{ phase: 'provision' as const, outcome: 'completed' as const, node_id, node_instance_id, pool: 'gpu', image },
    ...{ pool_generation: generation, runtime_class: null, zone: null, started_at, seconds: setup + pull },
    ...{
      lateness_seconds: null,
      budget_seconds: 720,
      budget_source: 'pool',
      at: secondsLater(started_at, setup + pull),
    },
  }));
  await stage.db.transaction((tx) => keepBootSamples(tx, samples as Parameters<typeof keepBootSamples>[1]));
  const stages = numbered.flatMap(({ node_instance_id, setup, pull }) => [
    { node_instance_id, ordinal: 1, name: 'start-up', parent: '', seconds: setup + pull },
    { node_instance_id, ordinal: 2, name: 'image-pull', parent: 'start-up', seconds: pull },
    { node_instance_id, ordinal: 3, name: 'set-up', parent: 'start-up', seconds: setup },
  ]);
  await stage.db.query(
    `insert into boot_stages (node_instance_id, ordinal, name, parent, seconds, reported_at)
     select node_instance_id, ordinal, name, parent, seconds, now() from jsonb_populate_recordset(null::boot_stages, $1::jsonb)`,
    [JSON.stringify(stages)],
  );
}

const usual = { pull_seconds: 107, every: hour };
const lastWeek = () => booted({ ...usual, count: 120, from: -120 * hour });
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

test('an image pull that is twice as slow is found, named and told once', async () => {
  await lastWeek();
  const sweep = bootShift(stage.services);
  expect(await look(0, sweep)).toMatchObject({ decided: 0 });
  await booted({ ...usual, pull_seconds: 250, count: 30, from: 0 });
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
  const [told] = await stage.db.query<{ summary: string }>(
    `select summary from evidence where kind = 'finding.opened'`,
  );
  expect(told?.summary).toMatch(
    /^found: boots take 1\.4 times as long since .*Z: usually 5\d\d s, before 38\d s\. Image-pull went from 11\d s to 25\d s \(2\.\d times as long\)\. None of them has taken longer than the budget of 720 s yet, the slowest 5\d\d s$/,
  );
});

test('it is over when boots are as before, or their pool is gone', async () => {
  await lastWeek();
  await booted({ ...usual, pull_seconds: 250, count: 30, from: 0 });
  await look(31 * hour);
  await booted({ ...usual, count: 25, from: 31 * hour });
  await look(57 * hour);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: 'boots take no longer than before by now' }]);
  await booted({ ...usual, pull_seconds: 400, count: 40, from: 57 * hour });
  await look(98 * hour);
  expect(await theOne()).toMatchObject({ status: 'open' });
  await stage.db.transaction((tx) => deletePool(tx, 'gpu', stage.at(98 * hour)));
  await look(98 * hour + 60);
  expect((await findings()).at(-1)).toMatchObject({ status: 'resolved', reason: 'the pool was deleted' });
});

test('accepted, this is the usual pace: only what is slower still is told', async () => {
  await lastWeek();
  await booted({ ...usual, pull_seconds: 250, count: 60, from: 0 });
  await look(61 * hour);
  const { finding_id } = await theOne();
  const asker = { actor: { kind: 'person', name: 'ann' } } as unknown as Parameters<typeof acceptFinding>[3];
  const accept = (over: object) => acceptFinding(stage.services, finding_id, { reason: 'known', ...over }, asker);
  expect((await accept({ dry_run: true })).says).toContain('only boots that become slower still are told of');
  await accept({});
  await look(61 * hour + 60);
  expect(await theOne()).toMatchObject({ finding_id, status: 'accepted' });
  await booted({ ...usual, pull_seconds: 450, count: 25, from: 62 * hour });
  await look(88 * hour);
  expect((await findingRow(stage.db, finding_id))?.closed_at).not.toBeNull();
  expect(await theOne()).toMatchObject({ status: 'open', theirs: { since: stage.at(62 * hour).toISOString() } });
});

test('a pace that lasts is the usual one, and a changed pool is named', async () => {
  await lastWeek();
  await booted({ ...usual, pull_seconds: 250, count: 40, from: 0, generation: 7, image: 'b' });
  await look(41 * hour);
  expect(await theOne()).toMatchObject({
    theirs: { generation: 7, former_generation: 1, image: 'b', former_image: 'a' },
  });
  await look(7 * day);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: expect.stringContaining('lasted 7 days') }]);
});
