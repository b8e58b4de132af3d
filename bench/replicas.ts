/**
 * The limit of one and of two replicas on the same database: heartbeats in batches at increasing
 * rates until fewer are answered than sent, with the CPU use of each party at the highest sustained
 * rate. All share the machine's cores, so a second replica adds little if the database or the cores
 * are the limit.
 */
import { loadavg } from 'node:os';
import { type Offered, offer } from './fleet/offer.ts';
import { openStore, startServer } from './fleet/scene.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import type { Replica } from './harness/server-process.ts';

const options = readOptions(import.meta.url, {
  takes: 'about five minutes; with --quick two',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
/**
 * Enough nodes that each beats often enough at the lowest rate: silent nodes would cause other
 * work.
 */
const nodes = quick ? 20_000 : 40_000;
const rates = quick ? [2_000, 4_000, 8_000, 16_000] : [8_000, 16_000, 32_000, 48_000, 64_000, 80_000, 96_000, 128_000];
const stepSeconds = quick ? 8 : 20;
const keptShare = 0.97;

/** Names the process that was the bottleneck. */
function limitOf({ use }: Offered): string {
  const parties = [
    ...use.servers.map((share, place) => ({ who: `replica ${place + 1}`, share })),
    { who: 'the database', share: use.database },
    { who: 'the generator', share: use.fleet },
  ].toSorted((a, b) => b.share - a.share);
  const shares = parties.map(({ who, share }) => `${who} ${share.toFixed(2)}`).join(', ');
  const busiest = use.servers.some((share) => share > 0.9)
    ? 'a replica, whose one thread was always at work'
    : 'the cores';
  return `${use.idle < 0.2 ? busiest : 'waiting for the store'}: processors used: ${shares}, others ${use.others.toFixed(2)}, idle ${use.idle.toFixed(2)}`;
}

const figuresOf = (count: number, steps: Offered[]): { best: number; figures: Figure[]; note: string } => {
  const most = steps.reduce((best, step) => (step.answered > best.answered ? step : best));
  const { use, answered } = most;
  const name = count === 1 ? 'one replica' : `${count} replicas`;
  const server = use.servers.reduce((sum, share) => sum + share, 0);
  const last = steps.at(-1) ?? most;
  const isKept = last.answered >= keptShare * last.rate;
  return {
    best: answered,
    figures: [
      { what: `${name}: most beats answered`, value: answered, unit: 'beats/s' },
      { what: '… processor of the replicas, a beat', value: (server / answered) * 1e6, unit: 'µs' },
      { what: '… of the database', value: (use.database / answered) * 1e6, unit: 'µs' },
      { what: '… of the generator', value: (use.fleet / answered) * 1e6, unit: 'µs' },
    ],
    note: `${name}: ${isKept ? 'every rate offered was kept' : `at ${last.rate} beats/s offered the limit was ${limitOf(last)}`}`,
  };
};

const loadBefore = loadavg();
const directory = await freshDirectory();
/** A rate high enough that the server never asks for slower heartbeats. */
const tireless = 1_000_000;
const fleet = { nodes, rate: tireless };
const store = await openStore(directory, fleet);
const replicas: Replica[] = [];
try {
  const measured: ReturnType<typeof figuresOf>[] = [];
  for (const count of [1, 2]) {
    replicas.push(await startServer(directory, store, fleet.rate, `server-${count}`));
    const query = { replicas, postmaster: store.pid(), nodes, seconds: stepSeconds };
    // Warm up each replica before measuring.
    const settling = await offer({ ...query, rate: rates[0] ?? 0, from: 0 });
    let from = settling.rate * stepSeconds;
    const steps: Offered[] = [];
    for (const rate of rates) {
      const step = await offer({ ...query, rate, from });
      from += rate * stepSeconds;
      process.stderr.write(`${count} of them, ${rate} offered: ${step.answered.toFixed(0)} beats/s answered\n`);
      steps.push(step);
      if (step.answered < keptShare * rate) break;
    }
    measured.push(figuresOf(count, steps));
  }
  const [one, two] = measured;
  const figures = measured.flatMap((each) => each.figures);
  if (one && two) figures.push({ what: 'two replicas / one', value: two.best / one.best, unit: '×' });
  report(options, 'replicas', figures, loadBefore, { medianOf: 'one run', notes: measured.map(({ note }) => note) });
  await Promise.all(replicas.map((replica) => replica.stop()));
} finally {
  await store.end();
  await removeDirectory(directory);
}
