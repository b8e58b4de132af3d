/**
 * Measures what an idle installation writes: transactions, commits and WAL a second and a day, and
 * the connections to the database. A real server with the shipped PostgreSQL settings supervises
 * machines of the `local` pool that only send heartbeats. The baseline in the same run is the same
 * PostgreSQL with the server stopped, where bare statements write the same heartbeats.
 *
 * Autovacuum runs once a minute, so a window shorter than two minutes may miss its work. PostgreSQL
 * logs a page in full at its first change after a checkpoint. The window begins with a checkpoint,
 * so its full pages count once for each checkpoint of a day.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { defaultIntervalSeconds } from '../../src/lifecycle/deadlines/heartbeat-policy.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/pg/embedded/embedded.ts';
import { freshDirectory, registerCleanup, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startReplica } from '../harness/server-process.ts';
import { allocateMachines, connectAs } from './machines.ts';
import { countingSettings, type DatabaseUse, openWalCounter, type WalCounter } from './wal.ts';

const options = readOptions(import.meta.url, {
  duration: 'about seven minutes with the defaults',
  options: {
    json: common.json,
    quick: common.quick,
    machines: { kind: 'count', default: 12, description: 'machines that send heartbeats' },
    seconds: { kind: 'count', default: 180, description: 'length of each window; 15 with --quick' },
    settle: { kind: 'count', default: 30, description: 'seconds before the window; 10 with --quick' },
    top: { kind: 'tally', default: 8, description: 'number of tables and statements to list' },
  },
});
const { quick, machines, top } = options;
const windowSeconds = quick ? Math.min(15, options.seconds) : options.seconds;
const settleSeconds = quick ? Math.min(10, options.settle) : options.settle;
const daySeconds = 86_400;
/** As in `checkpoint_timeout` of the embedded server. */
const checkpointsPerDay = daySeconds / (15 * 60);
const maxTransactions = 20;
const maxWalMbPerDay = 150;

interface Window {
  use: DatabaseUse;
  seconds: number;
}

async function measureWindow(counter: WalCounter, work: () => Promise<void>): Promise<Window> {
  const end = await counter.begin();
  const startedMs = systemClock.monotonicMs();
  await work();
  const use = await end();
  return { use, seconds: (systemClock.monotonicMs() - startedMs) / 1000 };
}

const pauseSeconds = (seconds: number) => pause(systemClock, seconds * 1000);

/** Writes one heartbeat of each machine in each interval, spread evenly. */
async function writeBareHeartbeats(db: Database): Promise<void> {
  const rows = await db.query<{ node_instance_id: string }>('select node_instance_id from heartbeats where not over');
  const startedMs = systemClock.monotonicMs();
  for (let written = 0; ; written++) {
    const dueMs = startedMs + (written * defaultIntervalSeconds * 1000) / rows.length;
    if (dueMs >= startedMs + windowSeconds * 1000) break;
    await pause(systemClock, Math.max(0, dueMs - systemClock.monotonicMs()));
    await db.query('update heartbeats set last_seen_at = clock_timestamp() where node_instance_id = $1', [
      rows[written % rows.length]?.node_instance_id,
    ]);
  }
  await pause(systemClock, Math.max(0, startedMs + windowSeconds * 1000 - systemClock.monotonicMs()));
}

const walMbPerDay = ({ use, seconds }: Window) =>
  ((use.wal_bytes / seconds) * daySeconds + use.page_bytes * checkpointsPerDay) / 1e6;

function figuresOf(name: string, window: Window, targets: { transactions?: number; wal?: number }): Figure[] {
  const { use, seconds } = window;
  return [
    {
      what: `${name}: transactions`,
      value: use.transactions / seconds,
      unit: '/s',
      ...(targets.transactions !== undefined && { target: targets.transactions }),
    },
    { what: '… of which wrote something', value: use.written_commits / seconds, unit: '/s' },
    { what: '… WAL without full pages', value: use.wal_bytes / seconds, unit: 'B/s' },
    { what: '… full pages after a checkpoint', value: use.page_bytes / 1000, unit: 'kB' },
    {
      what: '… WAL of a day, a checkpoint every 15 minutes',
      value: walMbPerDay(window),
      unit: 'MB',
      ...(targets.wal !== undefined && { target: targets.wal }),
    },
  ];
}

const oneLine = (text: string) => text.replaceAll(/\s+/g, ' ').slice(0, 110);

function notesOf({ use, seconds }: Window): string[] {
  const rate = (count: number) => (count / seconds).toFixed(2);
  return [
    ...use.tables
      .slice(0, top)
      .map(({ name, records, bytes }) => `${rate(bytes)} B/s, ${rate(records)} records/s: ${name}`),
    ...use.statements
      .slice(0, 4 * top)
      .map(({ text, calls, wal_bytes }) => `${rate(calls)} calls/s, ${rate(wal_bytes)} B/s: ${oneLine(text)}`),
  ];
}

const loadBefore = loadavg();
const directory = await freshDirectory();
let starting: Promise<EmbeddedPostgres> | undefined;
const stopStore = registerCleanup(async () => {
  const postgres = await starting;
  await postgres?.stop();
  if (postgres) await removeDirectory(postgres.clusterDir);
});
starting = startEmbeddedPostgres({ dataDir: join(directory, 'store'), clock: systemClock, settings: countingSettings });
const postgres = await starting;
const data_dir = join(directory, 'data');
const server = await startReplica(
  data_dir,
  [
    ...['--database-url', postgres.application_url, '--owner-database-url', postgres.url],
    ...['--nodes-dir', join(directory, 'nodes')],
  ],
  {},
);
const client = await connectAs(server.url, data_dir);
await allocateMachines(client, machines);
await pauseSeconds(settleSeconds);
const counter = await openWalCounter(postgres.url);
const idle = await measureWindow(counter, () => pauseSeconds(windowSeconds));
const connections = await counter.countConnections();
await server.stop();
const db = openDatabase({ url: postgres.url, max_connections: 1 });
const bare = await measureWindow(counter, () => writeBareHeartbeats(db));
await db.close();
await counter.end();
await stopStore();
await removeDirectory(directory);

const figures: Figure[] = [
  ...figuresOf(`idle, ${machines} machines`, idle, { transactions: maxTransactions, wal: maxWalMbPerDay }),
  { what: '… connections to the database', value: connections, unit: '' },
  ...figuresOf('bare heartbeats (baseline)', bare, {}),
  { what: 'WAL of a day, idle / bare', value: walMbPerDay(idle) / walMbPerDay(bare), unit: '×' },
];
report(options, 'idle', figures, loadBefore, {
  medianOf: `one window of ${windowSeconds} s`,
  notes: ['what the idle server wrote:', ...notesOf(idle)],
});
