/**
 * Measures the cost of a sweep's pass on a large fleet: whether it depends on the number of idle
 * nodes, and how late verdicts are. The baseline is the bare UPDATE of the same rows. Exits with 1
 * if a ratio of CPU times is out of bounds, or if a measurement fails. Elapsed times have targets
 * but no bounds, because they depend on the machine.
 */
import { loadavg } from 'node:os';
import { systemClock } from '../../src/base/clock.ts';
import { createSweepRunner, type SweepRunner } from '../../src/sweeps/runner/runner.ts';
import { ingestWatch } from '../../src/sweeps/watchers/ingest-watch.ts';
import { type BenchServer, startBenchServer } from '../harness/bench-database.ts';
import { type Figure, median, quantile, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { databaseSizeMb, fillFleet } from '../harness/resting-fleet.ts';
import { measureLateness } from './lateness.ts';
import { type Fleet, measurePasses } from './passes.ts';
import { type MeasuredRule, measuredRules } from './rules.ts';
import { sweepServices } from './services.ts';
import { measureTicks } from './ticks.ts';
import { type Cost, type Stopwatch, stopwatch } from './work.ts';

const options = readOptions(import.meta.url, {
  duration: 'several minutes; with --quick about two',
  options: common,
});
const { quick, rounds } = options;
const idleSizes = quick ? [20_000, 200_000] : [100_000, 1_000_000];
const inFlight = 10_000;
const due = 500;
const samples = 3 * rounds;
const latenessRun = { nodes: 2_000, overSeconds: 20 };
const neededGb = quick ? 2 : 6;
const bounds = { flat: { min: 0.8, max: 1.2 }, bare: { min: 0, max: 3 } };
const targets = { passMs: 100, emptyMs: 5, lateSeconds: 1 };

const figures: Figure[] = [];
const failures: string[] = [];
const formatCount = (idle: number) => (idle >= 1e6 ? `${idle / 1e6}M` : `${idle / 1e3}k`);

const startedMs = systemClock.monotonicMs();
const progress = (message: string) =>
  process.stderr.write(`${((systemClock.monotonicMs() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${message}\n`);

function addTime(what: string, spent: Cost[], target?: number): void {
  const ms = spent.map((each) => each.ms);
  figures.push({ what, value: median(ms), unit: 'ms', samples: ms, ...(target !== undefined && { target }) });
}

/**
 * Adds the ratio of CPU times, which may have bounds, and the ratio of elapsed times. The samples
 * of the same turn are compared.
 */
function addRatio(what: string, over: Cost[], under: Cost[], bound?: { min: number; max: number }): void {
  const ratiosOf = (unit: keyof Cost) => over.map((each, place) => each[unit] / (under[place]?.[unit] ?? Number.NaN));
  const value = median(ratiosOf('workMs'));
  figures.push(
    { what, value, unit: '×', samples: ratiosOf('workMs') },
    { what: '… of the elapsed times', value: median(ratiosOf('ms')), unit: '×', samples: ratiosOf('ms') },
  );
  if (bound && (value < bound.min || value > bound.max))
    failures.push(`${what}: the CPU time is ${value.toFixed(2)} ×, expected between ${bound.min} and ${bound.max}`);
}

async function openFleet(server: BenchServer, idle: number): Promise<Fleet> {
  progress(`filling a fleet of ${formatCount(idle)} idle nodes`);
  const db = await server.database(`fleet_${idle}`);
  const nodesInFlight = await fillFleet(db, { idle, inFlight: inFlight + due });
  figures.push({ what: `database of ${formatCount(idle)} idle nodes`, value: await databaseSizeMb(db), unit: 'MB' });
  return { idle, services: await sweepServices(db), inFlight: nodesInFlight };
}

/** Rules decide nothing without an ingest watch, so it runs during the measurement. */
function startIngestWatch({ services }: Fleet): SweepRunner {
  const sweeps = [ingestWatch(services)];
  const onError = (name: string, error: unknown) => failures.push(`${name} failed: ${error}`);
  const runner = createSweepRunner({ sweeps, clock: services.clock, onError });
  runner.start();
  return runner;
}

async function addRuleFigures(fleets: Fleet[], rule: MeasuredRule, watch: Stopwatch): Promise<void> {
  const name = rule.allocated ? `${rule.name} and allocations` : rule.name;
  const results = await measurePasses(fleets, rule, { due, samples, stopwatch: watch });
  for (const [place, { pass, empty, bare, recorded, reading }] of results.entries()) {
    const label = `${name}, ${formatCount(fleets[place]?.idle ?? 0)} idle`;
    addTime(`${label}: a pass`, pass, targets.passMs);
    addTime('… a pass without due nodes', empty, targets.emptyMs);
    addTime('… the bare UPDATE (baseline)', bare);
    addTime('… the bare UPDATE with the same evidence and boot samples', recorded);
    if (reading.length > 0) addTime('… the scan of all heartbeats', reading);
    addRatio(`${label}: pass / bare UPDATE`, pass, bare, bounds.bare);
    addRatio(`${label}: pass / bare UPDATE with evidence and boot samples`, pass, recorded);
  }
  const [few, many] = results;
  const sizes = idleSizes.map(formatCount).toReversed().join(' / ');
  if (few && many) addRatio(`${name}: pass with ${sizes} idle nodes`, many.pass, few.pass, bounds.flat);
}

/**
 * Adds the times of each sweep that takes too much CPU time while no node is due, and of all sweeps
 * together.
 */
async function addTickFigures(fleet: Fleet, watch: Stopwatch): Promise<void> {
  const ticks = await measureTicks(fleet, { samples: rounds, stopwatch: watch });
  for (const [name, spent] of ticks)
    if (median(spent.map(({ workMs }) => workMs)) > targets.emptyMs)
      addTime(`${name}, ${formatCount(fleet.idle)} idle: no node due`, spent, targets.emptyMs);
  const turns = Array.from({ length: rounds }, (_, turn) => [...ticks.values()].flatMap((spent) => spent[turn] ?? []));
  const sums = turns.map((turn) => ({
    ms: turn.reduce((sum, { ms }) => sum + ms, 0),
    workMs: turn.reduce((sum, { workMs }) => sum + workMs, 0),
  }));
  addTime(`all ${ticks.size} sweeps once, ${formatCount(fleet.idle)} idle, no node due`, sums);
}

async function addLatenessFigures(fleet: Fleet): Promise<void> {
  const { failures: failedRuns, ...lateness } = await measureLateness(fleet, latenessRun);
  for (const failure of new Set(failedRuns)) failures.push(`while measuring lateness, ${failure}`);
  for (const [until, seconds] of Object.entries(lateness))
    for (const share of [0.5, 0.99, 1]) {
      const name = share === 1 ? 'max' : `p${share * 100}`;
      const target = share === 0.99 ? { target: targets.lateSeconds } : {};
      figures.push({
        what: `from the deadline until ${until}, ${name}`,
        value: quantile(seconds, share),
        unit: 's',
        ...target,
      });
    }
}

/** A failed measurement is reported at the end; the other figures are kept. */
async function attempt(what: string, measure: () => Promise<void>): Promise<void> {
  progress(`measuring ${what}`);
  try {
    await measure();
  } catch (error) {
    failures.push(`${what} could not be measured: ${error instanceof Error ? error.message : error}`);
  }
}

const loadBefore = loadavg();
const server = await startBenchServer(neededGb);
try {
  const watch = stopwatch(server.pid);
  const fleets: Fleet[] = [];
  for (const idle of idleSizes) fleets.push(await openFleet(server, idle));
  const watches = fleets.map(startIngestWatch);
  for (const rule of measuredRules) await attempt(rule.name, () => addRuleFigures(fleets, rule, watch));
  for (const fleet of fleets)
    await attempt('the cost of sweeps while no node is due', () => addTickFigures(fleet, watch));
  for (const each of watches) await each.stop();
  const largest = fleets.at(-1);
  if (largest) await attempt('lateness', () => addLatenessFigures(largest));
} finally {
  await server.stop();
}
report(options, 'sweep', figures, loadBefore, { medianOf: `up to ${samples}`, jsonToo: true });
for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;
