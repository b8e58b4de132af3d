/**
 * Where the limit lies with one replica and with two on the same database: beats in batches, offered faster and faster until fewer
 * are answered than offered, with the processors that each party used at the highest rate that was kept. Everything shares the
 * machine's cores, so the second replica adds little where the database or the cores are the limit; that is what is to be seen.
 */
import { Agent } from 'node:http';
import { loadavg } from 'node:os';
import { pause, systemClock } from '../src/base/clock.ts';
import { type FleetOptions, options as given } from './fleet/options.ts';
import { post } from './fleet/post.ts';
import { readProcessors, type Use, useBetween } from './fleet/processors.ts';
import { openStore, startServer } from './fleet/scene.ts';
import { type Figure, quick, report } from './measure.ts';
import { freshDirectory, type Replica, removeDirectory } from './server-process.ts';
import { credentialOf } from './sweep-fleet.ts';

const nodes = quick ? 20_000 : 100_000;
const rates = quick ? [2_000, 4_000, 8_000, 16_000] : [4_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000];
const stepSeconds = quick ? 8 : 20;
const batch = 100;
const inFlight = 16;
const kept = 0.97;
const said = '"status":"ready","health_score":100,"error_rate":0,"active_tasks":0';

interface Step {
  offered: number;
  answered: number;
  use: Use;
}

/** Offers so many a second for a while; what cannot be sent in its time, because too many wait for their answers, is not sent. */
async function offer(replicas: readonly Replica[], postmaster: number, rate: number, from: number): Promise<Step> {
  const sockets = new Agent({ keepAlive: true, maxSockets: inFlight });
  const before = readProcessors(
    replicas.map(({ pid }) => pid),
    postmaster,
  );
  const startedMs = systemClock.monotonicMs();
  let [sent, answered, waiting] = [0, 0, 0];
  const send = async (first: number, url: string) => {
    waiting++;
    const beats = Array.from(
      { length: batch },
      (_, i) => `{"credential":"${credentialOf(1 + ((first + i) % nodes))}",${said}}`,
    );
    try {
      const { status } = await post(new URL('/v1/agent/heartbeats', url), sockets, `{"beats":[${beats.join(',')}]}`);
      if (status === 200) answered += batch;
    } finally {
      waiting--;
    }
  };
  for (let elapsed = 0; elapsed < stepSeconds; elapsed = (systemClock.monotonicMs() - startedMs) / 1000) {
    while (sent < rate * elapsed && waiting < inFlight * replicas.length) {
      const url = replicas[(sent / batch) % replicas.length]?.url ?? '';
      send(from + sent, url).catch(() => {});
      sent += batch;
    }
    await pause(systemClock, 5);
  }
  const after = readProcessors(
    replicas.map(({ pid }) => pid),
    postmaster,
  );
  while (waiting > 0) await pause(systemClock, 5);
  sockets.destroy();
  const seconds = (after.atMs - before.atMs) / 1000;
  return { offered: rate, answered: answered / seconds, use: useBetween(before, after) };
}

/** Who could do no more where the rate was not kept, in words. */
function limitOf({ use }: Step): string {
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

const figuresOf = (count: number, steps: Step[]): { best: number; figures: Figure[]; note: string } => {
  const most = steps.reduce((best, step) => (step.answered > best.answered ? step : best));
  const { use, answered } = most;
  const name = count === 1 ? 'one replica' : `${count} replicas`;
  const server = use.servers.reduce((sum, share) => sum + share, 0);
  const last = steps.at(-1) ?? most;
  const isKept = last.answered >= kept * last.offered;
  return {
    best: answered,
    figures: [
      { what: `${name}: most beats answered`, value: answered, unit: 'beats/s' },
      { what: '… processor of the replicas, a beat', value: (server / answered) * 1e6, unit: 'µs' },
      { what: '… of the database', value: (use.database / answered) * 1e6, unit: 'µs' },
      { what: '… of the generator', value: (use.fleet / answered) * 1e6, unit: 'µs' },
    ],
    note: `${name}: ${isKept ? 'every rate offered was kept' : `at ${last.offered} beats/s offered the limit was ${limitOf(last)}`}`,
  };
};

const loadBefore = loadavg();
const directory = await freshDirectory();
const fleet: FleetOptions = { ...given, nodes, rate: nodes / 10 };
const store = await openStore(directory, fleet);
const replicas: Replica[] = [];
try {
  const measured: ReturnType<typeof figuresOf>[] = [];
  for (const count of [1, 2]) {
    replicas.push(await startServer(directory, store, fleet.rate, `server-${count}`));
    // Met once, so that nobody has to be learned while it counts.
    for (let from = 0; from < nodes * count; from += nodes)
      await offer(replicas, store.pid(), nodes / stepSeconds, from);
    const steps: Step[] = [];
    for (const rate of rates) {
      const step = await offer(replicas, store.pid(), rate, steps.length * 7_919);
      process.stderr.write(`${count} of them, ${rate} offered: ${step.answered.toFixed(0)} beats/s answered\n`);
      steps.push(step);
      if (step.answered < kept * rate) break;
    }
    measured.push(figuresOf(count, steps));
  }
  const [one, two] = measured;
  const figures = measured.flatMap((each) => each.figures);
  if (one && two) figures.push({ what: 'two replicas / one', value: two.best / one.best, unit: '×' });
  report('replicas', figures, loadBefore, { medianOf: 'one run', notes: measured.map(({ note }) => note) });
  await Promise.all(replicas.map((replica) => replica.stop()));
} finally {
  await store.end();
  await removeDirectory(directory);
}
