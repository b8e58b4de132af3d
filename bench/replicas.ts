/**
 * Measures the highest heartbeat rate of one replica and of two replicas on the same database.
 * Sends batches at increasing rates until fewer heartbeats are answered than sent, and reports the
 * CPU use of each process. All processes share the machine's cores, so a second replica adds little
 * if the database or the cores are the limit.
 */
import { loadavg } from 'node:os';
import { openStore, startServer } from './fleet/scene.ts';
import { type BatchLoadResult, sendBatches } from './fleet/send-batches.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import type { Replica } from './harness/server-process.ts';

const options = readOptions(import.meta.url, {
  duration: 'about five minutes; with --quick two',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
/**
 * Few enough that every node sends a heartbeat before it becomes stale, even at the lowest rate.
 * Verdicts on silent nodes would cost extra.
 */
const nodes = quick ? 20_000 : 40_000;
const rates = quick ? [2_000, 4_000, 8_000, 16_000] : [8_000, 16_000, 32_000, 48_000, 64_000, 80_000, 96_000, 128_000];
const stepSeconds = quick ? 8 : 20;
/** A rate counts as sustained if at least this share of its heartbeats is answered. */
const sustainedShare = 0.97;

/** Describes the bottleneck, with the CPU use of each process. */
function limitOf({ use }: BatchLoadResult): string {
  const processes = [
    ...use.servers.map((share, place) => ({ name: `replica ${place + 1}`, share })),
    { name: 'the database', share: use.database },
    { name: 'the load generator', share: use.fleet },
  ].toSorted((a, b) => b.share - a.share);
  const shares = processes.map(({ name, share }) => `${name} ${share.toFixed(2)}`).join(', ');
  const busiest = use.servers.some((share) => share > 0.9) ? 'the single thread of a replica' : 'the cores';
  return `${use.idle < 0.2 ? busiest : 'waiting for the store'}; CPUs used: ${shares}, others ${use.others.toFixed(2)}, idle ${use.idle.toFixed(2)}`;
}

const figuresOf = (count: number, steps: BatchLoadResult[]): { best: number; figures: Figure[]; note: string } => {
  const fastest = steps.reduce((best, step) => (step.answered_per_second > best.answered_per_second ? step : best));
  const { use, answered_per_second: answered } = fastest;
  const name = count === 1 ? 'one replica' : `${count} replicas`;
  const server = use.servers.reduce((sum, share) => sum + share, 0);
  const last = steps.at(-1) ?? fastest;
  const isSustained = last.answered_per_second >= sustainedShare * last.rate;
  return {
    best: answered,
    figures: [
      { what: `${name}: highest rate answered`, value: answered, unit: 'beats/s' },
      { what: '… CPU time of the replicas, per heartbeat', value: (server / answered) * 1e6, unit: 'µs' },
      { what: '… of the database', value: (use.database / answered) * 1e6, unit: 'µs' },
      { what: '… of the load generator', value: (use.fleet / answered) * 1e6, unit: 'µs' },
    ],
    note: `${name}: ${isSustained ? 'every rate sent was answered' : `at ${last.rate} heartbeats/s sent, the limit was ${limitOf(last)}`}`,
  };
};

const loadBefore = loadavg();
const directory = await freshDirectory();
/** A rate high enough that the server never asks for slower heartbeats. */
const unlimitedRate = 1_000_000;
const fleet = { nodes, rate: unlimitedRate };
const store = await openStore(directory, fleet);
const replicas: Replica[] = [];
try {
  const results: ReturnType<typeof figuresOf>[] = [];
  for (const count of [1, 2]) {
    replicas.push(await startServer(directory, store, fleet.rate, `server-${count}`));
    const load = { replicas, postmaster: store.pid(), nodes, seconds: stepSeconds };
    // Warm up each replica before measuring.
    const warmUp = await sendBatches({ ...load, rate: rates[0] ?? 0, firstTurn: 0 });
    let firstTurn = warmUp.rate * stepSeconds;
    const steps: BatchLoadResult[] = [];
    for (const rate of rates) {
      const step = await sendBatches({ ...load, rate, firstTurn });
      firstTurn += rate * stepSeconds;
      process.stderr.write(
        `replicas: ${count}, ${rate} heartbeats/s sent: ${step.answered_per_second.toFixed(0)} heartbeats/s answered\n`,
      );
      steps.push(step);
      if (step.answered_per_second < sustainedShare * rate) break;
    }
    results.push(figuresOf(count, steps));
  }
  const [one, two] = results;
  const figures = results.flatMap((each) => each.figures);
  if (one && two) figures.push({ what: 'two replicas / one', value: two.best / one.best, unit: '×' });
  report(options, 'replicas', figures, loadBefore, { medianOf: 'one run', notes: results.map(({ note }) => note) });
  await Promise.all(replicas.map((replica) => replica.stop()));
} finally {
  await store.end();
  await removeDirectory(directory);
}
