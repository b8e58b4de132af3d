/**
 * What a pass of a sweep costs on a large fleet: whether it depends on how many nodes stand idle, how it compares with the
 * bare UPDATE of the same rows, and how late verdicts come. Ends with 1 when a ratio is beyond its bound; times depend on
 * the machine and are only printed.
 */
import { loadavg } from 'node:os';
import { now } from '../src/base/clock.ts';
import { sweepRegistry } from '../src/sweeps/registry.ts';
import { type Figure, median, quantile, quick, report, rounds } from './measure.ts';
import { startBenchServer } from './sweep-database.ts';
import { fillFleet, sizeMb } from './sweep-fleet.ts';
import { measureLateness } from './sweep-lateness.ts';
import { type Fleet, timePasses } from './sweep-passes.ts';
import { measuredRules } from './sweep-rules.ts';
import { sweepServices } from './sweep-services.ts';

const idleSizes = quick ? [20_000, 200_000] : [100_000, 1_000_000];
const inFlight = 10_000;
const due = 500;
const samples = 3 * rounds;
const late = { nodes: 2_000, overSeconds: 20 };
const neededGb = quick ? 2 : 6;
const flatWithin = 0.2;
const passWithin = 3;
const passTargetMs = 100;
const emptyTargetMs = 5;
const lateTargetSeconds = 1;

const loadBefore = loadavg();
const figures: Figure[] = [];
const broken: string[] = [];
const counted = (idle: number) => (idle >= 1e6 ? `${idle / 1e6}M` : `${idle / 1e3}k`);
const ratios = (over: number[], under: number[]) => over.map((value, place) => value / (under[place] ?? Number.NaN));

function ratio(what: string, values: number[], within?: { least: number; most: number }): void {
  const value = median(values);
  figures.push({ what, value, unit: '×', samples: values });
  if (within && (value < within.least || value > within.most))
    broken.push(`${what} is ${value.toFixed(2)}×, and should be within ${within.least} and ${within.most}`);
}

async function openFleet(server: Awaited<ReturnType<typeof startBenchServer>>, idle: number): Promise<Fleet> {
  const db = await server.database(`fleet_${idle}`);
  const services = await sweepServices(db);
  const flying = await fillFleet(db, { idle, inFlight: inFlight + due }, now(services.clock));
  figures.push({ what: `database of ${counted(idle)} idle nodes`, value: await sizeMb(db), unit: 'MB' });
  return { idle, services, sweeps: sweepRegistry(services), inFlight: flying };
}

async function measureRule(fleets: Fleet[], rule: (typeof measuredRules)[number]): Promise<void> {
  const timings = await timePasses(fleets, rule, { due, samples });
  for (const [place, { pass, bare, told, empty }] of timings.entries()) {
    const label = `${rule.name}, ${counted(fleets[place]?.idle ?? 0)} idle`;
    figures.push(
      { what: `${label}: a pass`, value: median(pass), unit: 'ms', target: passTargetMs, samples: pass },
      { what: '… nobody due', value: median(empty), unit: 'ms', target: emptyTargetMs, samples: empty },
      { what: '… the bare UPDATE', value: median(bare), unit: 'ms', samples: bare },
      { what: '… with the same evidence', value: median(told), unit: 'ms', samples: told },
    );
    ratio(`${label}: pass / bare UPDATE`, ratios(pass, bare), { least: 0, most: passWithin });
    ratio('… pass / UPDATE and evidence', ratios(pass, told));
  }
  const [few, many] = timings;
  if (few && many)
    ratio(
      `${rule.name}: flat, ${fleets
        .map(({ idle }) => counted(idle))
        .reverse()
        .join(' / ')}`,
      ratios(many.pass, few.pass),
      {
        least: 1 - flatWithin,
        most: 1 + flatWithin,
      },
    );
}

async function measureVerdicts(fleet: Fleet): Promise<void> {
  const { judged, told } = await measureLateness(fleet, late);
  for (const [until, seconds] of Object.entries({ judged, told }))
    for (const share of [0.5, 0.99, 1]) {
      const name = share === 1 ? 'max' : `p${share * 100}`;
      const target = share === 0.99 ? { target: lateTargetSeconds } : {};
      figures.push({ what: `lateness until ${until}, ${name}`, value: quantile(seconds, share), unit: 's', ...target });
    }
}

const server = await startBenchServer(neededGb);
try {
  const fleets: Fleet[] = [];
  for (const idle of idleSizes) fleets.push(await openFleet(server, idle));
  for (const rule of measuredRules)
    if (fleets.every(({ sweeps }) => sweeps.some(({ name }) => name === rule.name))) await measureRule(fleets, rule);
  const largest = fleets.at(-1);
  if (largest) await measureVerdicts(largest);
} finally {
  await server.stop();
}
report('sweep', figures, loadBefore, { medianOf: samples, jsonToo: true });
for (const what of broken) process.stderr.write(`out of bounds: ${what}\n`);
process.exitCode = broken.length > 0 ? 1 : 0;
