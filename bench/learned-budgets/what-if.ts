/**
 * Measures the "what if" query for two numbers of recorded boots: in the database as the API runs
 * it, with every boot read and counted in this process for comparison, and the computations alone
 * in memory. Exits with 1 if ten times the boots cost more than twenty times as much.
 */
import { loadavg } from 'node:os';
import { now, systemClock } from '../../src/base/clock.ts';
import { estimateSurvival, type TimedBoot } from '../../src/lifecycle/boots/survival.ts';
import { whatIf } from '../../src/lifecycle/boots/what-if.ts';
import { computeWhatIf } from '../../src/store/boots/what-if.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { declarePool } from '../../src/store/rows/pools.ts';
import { recordBoots } from '../../src/store/testing/recorded-boots.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';

const options = readOptions(import.meta.url, {
  duration: 'about a minute',
  options: common,
});
const { quick, rounds } = options;
const sizes = quick ? [1_000, 10_000] : [10_000, 100_000];
const samples = 4 * rounds;
const targetMs = 100;
/** The number of boots that the target is for. */
const targetBoots = 100_000;
/**
 * Sorting ten times the boots takes a little more than ten times as long, and measurements vary. A
 * quadratic cost would grow a hundredfold.
 */
const maxGrowth = 20;
const pool = 'build';
const budget = { budget_seconds: 400, rescue_seconds: 200 };

/** Boots take about two minutes, with a long tail. One in fifty never ends. */
const bootOf = (place: number): TimedBoot => {
  const spread = Math.sqrt(-2 * Math.log(((place * 7919) % 10_007) / 10_007 + 1e-9)) * Math.cos(place);
  if (place % 50 === 0) return { seconds: 720, outcome: 'timed_out' };
  return { seconds: 120 * Math.exp(0.6 * spread), outcome: 'completed' };
};

const readBoots = (db: Database) =>
  db.query<TimedBoot>(`select seconds, outcome from boot_samples where pool = $1 and phase = 'provision'`, [pool]);

const queries: Record<string, (db: Database, boots: readonly TimedBoot[]) => Promise<unknown>> = {
  'in the database, as the API runs it': (db) =>
    computeWhatIf(db, { pool, phase: 'provision', since: null, current_seconds: 720, ...budget }),
  'baseline: read every boot and count in this process': async (db) => whatIf(await readBoots(db), budget),
  'the computation alone in memory, as the console runs it': async (_, boots) => whatIf(boots, budget),
  'the survival curve with its bands in memory': async (_, boots) => estimateSurvival(boots),
};

const figures: Figure[] = [];
const failures: string[] = [];
const loadBefore = loadavg();
const server = await startBenchServer(2);
try {
  const stores: { size: number; db: Database; boots: TimedBoot[] }[] = [];
  for (const size of sizes) {
    const db = await server.database(`boots_${size}`);
    await db.transaction((tx) => declarePool(tx, pool, { driver: 'external' }, now(systemClock)));
    const boots = Array.from({ length: size }, (_, place) => bootOf(place));
    for (let at = 0; at < size; at += 50_000)
      await recordBoots(db, { pool, boots: boots.slice(at, at + 50_000), until: now(systemClock) });
    await db.query('vacuum analyze boot_samples');
    stores.push({ size, db, boots });
  }
  const costs = new Map<string, number[]>();
  for (const [what, query] of Object.entries(queries)) {
    const durations = stores.map(() => [] as number[]);
    for (let turn = -1; turn < samples; turn++)
      for (const [place, { db, boots }] of stores.entries()) {
        const ms = (await secondsOf(() => query(db, boots))) * 1000;
        if (turn >= 0) durations[place]?.push(ms);
      }
    costs.set(what, durations.map(median));
    for (const [place, { size }] of stores.entries()) {
      const [value, before] = [median(durations[place] ?? []), median(durations[place - 1] ?? [])];
      const goal = size === targetBoots && !what.startsWith('baseline') && { target: targetMs };
      figures.push({ what: `${what}: ${size} boots`, value, unit: 'ms', samples: durations[place] ?? [], ...goal });
      if (place === 0) continue;
      figures.push({ what: '… / with a tenth of the boots', value: value / before, unit: '×' });
      if (value / before > maxGrowth)
        failures.push(`${what}: ${size} boots take ${(value / before).toFixed(1)} times as long as a tenth of them`);
    }
  }
  const [api = [], baseline = []] = [...costs.values()];
  figures.push({
    what: `baseline / in the database, ${sizes.at(-1)} boots`,
    value: (baseline.at(-1) ?? 0) / (api.at(-1) ?? 1),
    unit: '×',
  });
} finally {
  await server.stop();
}
report(options, 'what-if', figures, loadBefore, { medianOf: String(samples), jsonToo: true });
for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;
