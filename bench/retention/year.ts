/**
 * Measures whether the size of every table levels off: a year and more of allocations in virtual
 * time, with the real sweeps and retention times. A real server first allocates and releases a few
 * machines. Their rows are then copied to each day, with other ids and times. Sweeps run once for
 * each virtual day, and a vacuum once a week, because autovacuum does not see virtual time.
 *
 * Evidence of some layers is kept for 400 days, so it levels off after the year. The sizes are
 * those of --per-day allocations a day; the note scales them to 1,000.
 */

import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { createDbosEngine } from '../../src/engine/dbos-engine.ts';
import { silentLog } from '../../src/engine/engine-log.ts';
import { createSealer } from '../../src/store/integrity/sealer.ts';
import { defaultEnvironment } from '../../src/store/transitions/transition-rules.ts';
import { counts } from '../../src/sweeps/jobs/counts.ts';
import { housekeeping } from '../../src/sweeps/jobs/housekeeping.ts';
import { rowRetention } from '../../src/sweeps/jobs/row-retention.ts';
import type { SweepServices } from '../../src/sweeps/runner/services.ts';
import { memoryKeyRing } from '../../test/support/key-ring.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startReplica } from '../harness/server-process.ts';
import { allocateAndRelease } from '../operations/machines.ts';
import { copyPools, insertAllocationRows, readAllocationRows, waitUntilEnded } from './allocation-rows.ts';
import { isNeverDeleted, isStillGrowing, type Sizes, tableSizes, total } from './sizes.ts';

const options = readOptions(import.meta.url, {
  duration: 'about half an hour; with --quick some minutes',
  options: {
    json: common.json,
    quick: { kind: 'flag', description: '2 allocations a day, for a first look; it cannot be recorded' },
    'per-day': { kind: 'count', default: 10, description: 'allocations a day' },
    days: { kind: 'count', default: 600, description: 'virtual days' },
  },
});
const daySeconds = 24 * 3600;
const { days, quick } = options;
/** The number of allocations in each copy. */
const allocationsPerCopy = 2;
const perDay = quick ? 2 : Math.ceil(options['per-day'] / allocationsPerCopy) * allocationsPerCopy;
const sampleEveryDays = 30;
const comparedDays = 90;
const wantedPerDay = 1_000;

const megabytes = (bytes: number) => bytes / 1e6;
const loadBefore = loadavg();
const directory = await freshDirectory();
const postgres = await startBenchServer(3);
try {
  const source = await postgres.database('source');
  const data = join(directory, 'data');
  const replica = await startReplica(data, ['--database-url', source.url], {});
  const token = (await readFile(join(data, 'admin.token'), 'utf8')).trim();
  const client = createClient({ base_url: replica.url, token, addresses: routes });
  for (let made = 0; made < allocationsPerCopy; made++) await allocateAndRelease(client, 1);
  await waitUntilEnded(source);
  await replica.stop();
  const allocationRows = await readAllocationRows(source);
  const db = await postgres.database('year');

  // Virtual time ends at the present, because the database compares the age of evidence with its
  // own clock and refuses to drop new evidence.
  const end = now(systemClock);
  const clock = virtualClock(secondsLater(end, -days * daySeconds).getTime());
  const sealer = createSealer({ db, key_ring: memoryKeyRing(), installation: { installation_id: 'bench' } });
  const engine = createDbosEngine({
    connectionString: db.url,
    clock,
    executor_id: 'bench',
    listener: {
      executing: async () => {},
      stepStarted: async () => {},
      stepEnded: async () => {},
      emitted: async () => {},
      ended: async () => {},
    },
    log: silentLog,
  });
  await engine.launch();
  await copyPools(source, db);
  const services = {
    db,
    engine,
    environment: defaultEnvironment,
    installation: { maintainTaskKeys: async () => 0 },
    clock,
  } as unknown as SweepServices;
  const sweeps = [housekeeping(services, sealer), rowRetention(services), counts(services)];
  const seal = async () => {
    while ((await sealer.sealBatch(now(clock))).more);
  };

  const samples = new Map<number, Sizes>();
  let copies = 0;
  let deleted = 0;
  let slowestSeconds = 0;
  for (let day = 1; day <= days; day++) {
    for (let made = 0; made < perDay; made += allocationsPerCopy) {
      const ended = secondsLater(now(clock), (made / perDay) * daySeconds);
      await insertAllocationRows(db, allocationRows, { number: copies++, ended }, seal);
    }
    await clock.advance(daySeconds * 1000);
    for (const sweep of sweeps)
      for (let more = true; more; ) {
        slowestSeconds = Math.max(
          slowestSeconds,
          await secondsOf(async () => {
            const outcome = await sweep.run(now(clock));
            deleted += outcome.decided;
            more = outcome.next_in_seconds !== undefined;
          }),
        );
      }
    await seal();
    if (day % 7 === 0) await db.query('vacuum analyze');
    if (day % sampleEveryDays === 0) {
      samples.set(day, await tableSizes(db));
      process.stderr.write(`day ${day}: ${megabytes(total(samples.get(day) ?? new Map())).toFixed(1)} MB\n`);
    }
  }
  await engine.shutdown();

  const sampled = [...samples.keys()];
  const last = sampled.at(-1) ?? 0;
  const before = sampled.findLast((day) => day <= last - comparedDays) ?? sampled[0] ?? 0;
  const year = sampled.findLast((day) => day <= 365) ?? last;
  const sizesOn = (day: number) => samples.get(day) ?? new Map<string, number>();
  const names = [...sizesOn(last).keys()].filter((name) => (sizesOn(last).get(name) ?? 0) > 256 * 1024);
  const growing = names.filter(
    (name) => !isNeverDeleted(name) && isStillGrowing(sizesOn(before).get(name) ?? 0, sizesOn(last).get(name) ?? 0),
  );
  const bounded = (sizes: Sizes) => new Map([...sizes].filter(([name]) => !isNeverDeleted(name)));
  const figures: Figure[] = [
    ...names
      .toSorted((a, b) => (sizesOn(last).get(b) ?? 0) - (sizesOn(last).get(a) ?? 0))
      .flatMap((name): Figure[] => [
        { what: `${name}, day ${year}`, value: megabytes(sizesOn(year).get(name) ?? 0), unit: 'MB' },
        {
          what: `… day ${last} / day ${before} (baseline)`,
          value: (sizesOn(last).get(name) ?? 0) / (sizesOn(before).get(name) ?? 1),
          unit: '×',
        },
      ]),
    {
      what: `all tables that retention bounds, day ${year}`,
      value: megabytes(total(bounded(sizesOn(year)))),
      unit: 'MB',
    },
    { what: `… day ${last}`, value: megabytes(total(bounded(sizesOn(last)))), unit: 'MB' },
    {
      what: `… day ${last} / day ${before} (baseline)`,
      value: total(bounded(sizesOn(last))) / total(bounded(sizesOn(before))),
      unit: '×',
      target: 1.1,
    },
    { what: 'the slowest pass of a sweep', value: slowestSeconds, unit: 's' },
  ];
  const forEver = total(sizesOn(last)) - total(bounded(sizesOn(last)));
  const scale = wantedPerDay / perDay;
  report(options, 'retention', figures, loadBefore, {
    medianOf: '1',
    notes: [
      `${copies * allocationsPerCopy} allocations in ${days} days, ${perDay} a day; ${deleted} rows deleted`,
      growing.length > 0
        ? `STILL GROWING: ${growing.join(', ')}`
        : 'every table that retention bounds has levelled off',
      `scaled to ${wantedPerDay} a day: ${Math.round((megabytes(total(bounded(sizesOn(last)))) * scale) / 100) / 10} GB at the end, and seals, which are never deleted, ${((forEver * scale * 365) / last / 1e9).toFixed(1)} GB a year`,
    ],
  });
  if (growing.length > 0) process.exitCode = 1;
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
