/**
 * The cost of a sweep's pass on a large fleet: whether it depends on idle nodes, how it compares
 * with the bare UPDATE of the same rows, and how late verdicts are. Exits with 1 if a ratio of work
 * is out of bounds; times depend on the machine and are only printed.
 */
import { loadavg } from 'node:os';
import { systemClock } from '../../src/base/clock.ts';
import { createSweepRunner, type SweepRunner } from '../../src/sweeps/runner/runner.ts';
import { ingestWatch } from '../../src/sweeps/watchers/ingest-watch.ts';
import { type BenchServer, startBenchServer } from '../harness/bench-database.ts';
import { type Figure, median, quantile, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { fillFleet, sizeMb } from '../harness/resting-fleet.ts';
import { measureLateness } from './lateness.ts';
import { type Fleet, measurePasses } from './passes.ts';
import { type MeasuredRule, measuredRules } from './rules.ts';
import { sweepServices } from './services.ts';
import { measureTicks } from './ticks.ts';
import { type Spent, type Stopwatch, stopwatch } from './work.ts';

const options = readOptions(import.meta.url, {
  takes: 'some minutes; with --quick about two',
  options: common,
});
const { quick, rounds } = options;
const idleSizes = quick ? [20_000, 200_000] : [100_000, 1_000_000];
const inFlight = 10_000;
const due = 500;
const samples = 3 * rounds;
const late = { nodes: 2_000, overSeconds: 20 };
const neededGb = quick ? 2 : 6;
const bounds = { flat: { least: 0.8, most: 1.2 }, bare: { least: 0, most: 3 } };
const targets = { passMs: 100, emptyMs: 5, lateSeconds: 1 };

const figures: Figure[] = [];
const broken: string[] = [];
const counted = (idle: number) => (idle >= 1e6 ? `${idle / 1e6}M` : `${idle / 1e3}k`);

const startedMs = systemClock.monotonicMs();
const progress = (what: string) =>
  process.stderr.write(`${((systemClock.monotonicMs() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${what}\n`);

function time(what: string, spent: Spent[], target?: number): void {
  const ms = spent.map((each) => each.ms);
  figures.push({ what, value: median(ms), unit: 'ms', samples: ms, ...(target !== undefined && { target }) });
}

/**
 * The ratio of work, with optional bounds, and of time, for information. Samples are compared turn
 * by turn.
 */
function ratio(what: string, over: Spent[], under: Spent[], bound?: { least: number; most: number }): void {
  const of = (unit: keyof Spent) => over.map((each, place) => each[unit] / (under[place]?.[unit] ?? Number.NaN));
  const value = median(of('workMs'));
  figures.push(
    { what, value, unit: '×', samples: of('workMs') },
    { what: '… by the clock', value: median(of('ms')), unit: '×', samples: of('ms') },
  );
  if (bound && (value < bound.least || value > bound.most))
    broken.push(`${what} is ${value.toFixed(2)}×, and should be between ${bound.least} and ${bound.most}`);
}

async function openFleet(server: BenchServer, idle: number): Promise<Fleet> {
  progress(`filling a fleet of ${counted(idle)} idle nodes`);
  const db = await server.database(`fleet_${idle}`);
  const flying = await fillFleet(db, { idle, inFlight: inFlight + due });
  figures.push({ what: `database of ${counted(idle)} idle nodes`, value: await sizeMb(db), unit: 'MB' });
  return { idle, services: await sweepServices(db), inFlight: flying };
}

/** A replica without an ingest watch decides nothing. */
function hearing({ services }: Fleet): SweepRunner {
  const sweeps = [ingestWatch(services)];
  const onError = (name: string, error: unknown) => broken.push(`${name} failed: ${error}`);
  const runner = createSweepRunner({ sweeps, clock: services.clock, onError });
  runner.start();
  return runner;
}

async function judgeRule(fleets: Fleet[], rule: MeasuredRule, watch: Stopwatch): Promise<void> {
  const name = rule.allocated ? `${rule.name} and allocations` : rule.name;
  const measured = await measurePasses(fleets, rule, { due, samples, stopwatch: watch });
  for (const [place, { pass, empty, bare, recorded, reading }] of measured.entries()) {
    const label = `${name}, ${counted(fleets[place]?.idle ?? 0)} idle`;
    time(`${label}: a pass`, pass, targets.passMs);
    time('… nobody due', empty, targets.emptyMs);
    time('… the bare UPDATE', bare);
    time('… with the same evidence and samples', recorded);
    if (reading.length > 0) time('… reading all beats', reading);
    ratio(`${label}: pass / bare UPDATE`, pass, bare, bounds.bare);
    ratio(`${label}: pass / all that it writes`, pass, recorded);
  }
  const [few, many] = measured;
  const sizes = idleSizes.map(counted).toReversed().join(' / ');
  if (few && many) ratio(`${name}: flat, ${sizes}`, many.pass, few.pass, bounds.flat);
}

/** Fails sweeps whose work alone exceeds their allowed time. */
async function judgeTicks(fleet: Fleet, watch: Stopwatch): Promise<void> {
  const ticks = await measureTicks(fleet, { samples: rounds, stopwatch: watch });
  for (const [name, spent] of ticks)
    if (median(spent.map(({ workMs }) => workMs)) > targets.emptyMs)
      time(`${name}, ${counted(fleet.idle)} idle: nobody due`, spent, targets.emptyMs);
  const turns = Array.from({ length: rounds }, (_, turn) => [...ticks.values()].flatMap((spent) => spent[turn] ?? []));
  const sums = turns.map((turn) => ({
    ms: turn.reduce((sum, { ms }) => sum + ms, 0),
    workMs: turn.reduce((sum, { workMs }) => sum + workMs, 0),
  }));
  time(`all ${ticks.size} sweeps once, ${counted(fleet.idle)} idle, nobody due`, sums);
}

async function judgeLateness(fleet: Fleet): Promise<void> {
  const { failures, ...lateness } = await measureLateness(fleet, late);
  for (const failure of new Set(failures)) broken.push(`while verdicts fell due, ${failure}`);
  for (const [until, seconds] of Object.entries(lateness))
    for (const share of [0.5, 0.99, 1]) {
      const name = share === 1 ? 'max' : `p${share * 100}`;
      const target = share === 0.99 ? { target: targets.lateSeconds } : {};
      figures.push({ what: `lateness until ${until}, ${name}`, value: quantile(seconds, share), unit: 's', ...target });
    }
}

/** A failed measurement is reported at the end; the other figures are kept. */
async function attempt(what: string, measure: () => Promise<void>): Promise<void> {
  progress(`measuring ${what}`);
  try {
    await measure();
  } catch (error) {
    broken.push(`${what} could not be measured: ${error instanceof Error ? error.message : error}`);
  }
}

const loadBefore = loadavg();
const server = await startBenchServer(neededGb);
try {
  const watch = stopwatch(server.pid);
  const fleets: Fleet[] = [];
  for (const idle of idleSizes) fleets.push(await openFleet(server, idle));
  const watches = fleets.map(hearing);
  for (const rule of measuredRules) await attempt(rule.name, () => judgeRule(fleets, rule, watch));
  for (const fleet of fleets) await attempt('what an idle fleet costs', () => judgeTicks(fleet, watch));
  for (const each of watches) await each.stop();
  const largest = fleets.at(-1);
  if (largest) await attempt('lateness', () => judgeLateness(largest));
} finally {
  await server.stop();
}
report(options, 'sweep', figures, loadBefore, { medianOf: `up to ${samples}`, jsonToo: true });
for (const what of broken) process.stderr.write(`not as it should be: ${what}\n`);
process.exitCode = broken.length > 0 ? 1 : 0;
