/**
 * Measures how many heartbeats per second are accepted and stored in batches of a hundred, as
 * relays send them. The baseline is a bare upsert of the same rows, in alternating rounds. Also
 * reports how long after its answer a heartbeat is in the table, how many updates were HOT, and the
 * cost per heartbeat for the server and PostgreSQL.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import { type Database, single } from '../src/store/pg/database.ts';
import { type RunningServer, serveSlipway, unlimitedRateArguments } from './beats/processes.ts';
import { post, send } from './beats/sender.ts';
import { readProcessors } from './fleet/processors.ts';
import { startStore } from './fleet/store.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, median, quantile, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { credentialOf, fillFleet } from './harness/resting-fleet.ts';

const options = readOptions(import.meta.url, {
  duration: 'about two minutes; with --quick one',
  options: { ...common, nodes: { kind: 'count', default: 200_000, description: 'number of nodes' } },
});
const { quick, rounds, nodes } = options;
const batch = 100;
const batches = quick ? 600 : 1_500;
// No node sends two heartbeats in a round, so that each heartbeat is its own row.
if (nodes < batches * batch) throw new Error(`--nodes must be at least ${batches * batch}, the heartbeats of a round`);
const connections = 8;
/** How long to wait for an answered heartbeat to appear in the table. */
const lostAfterSeconds = 30;
/** The number of rows that the server flushes at once at the target rate. */
const rowsPerFlush = 6_000;
const targetRate = 30_000;
const heartbeatFields = { health_score: 97, error_rate: 0.01, active_tasks: 3 };

const bareUpsert = `
  insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, reported)
  select * from unnest($1::text[], $2::timestamptz[], $3::real[], $4::real[], $5::jsonb[])
  on conflict (node_instance_id) do update set last_seen_at = excluded.last_seen_at, interval_seconds = excluded.interval_seconds,
    stale_seconds = excluded.stale_seconds, reported = excluded.reported`;

/** Consecutive turns go to nodes that are far apart in the table, as in a real fleet. */
const numberOf = (turn: number) => (turn * 7919) % nodes;

/** Updated rows of the table of heartbeats, and how many of the updates were HOT. */
interface UpdateCounts {
  updated: number;
  hot: number;
}

async function readUpdateCounts(db: Database): Promise<UpdateCounts> {
  await db.query('select pg_stat_force_next_flush()');
  return single(
    await db.query<UpdateCounts>(
      `select n_tup_upd::double precision as updated, n_tup_hot_upd::double precision as hot from pg_stat_user_tables where relname = 'heartbeats'`,
    ),
  );
}

const countSince = async (db: Database, since: Date): Promise<number> =>
  single(
    await db.query<{ rows: number }>('select count(*)::int as rows from heartbeats where last_seen_at >= $1', [since]),
  ).rows;

const secondsSince = (ms: number) => (systemClock.monotonicMs() - ms) / 1000;

/** The baseline. Returns rows per second. */
async function runBareRound(db: Database, ids: string[], from: number): Promise<number> {
  const startedMs = systemClock.monotonicMs();
  const rows = batches * batch;
  for (let first = 0; first < rows; first += rowsPerFlush) {
    const count = Math.min(rowsPerFlush, rows - first);
    const batchIds = Array.from({ length: count }, (_, i) => ids[numberOf(from + first + i)] as string);
    const repeat = <T>(value: T) => batchIds.map(() => value);
    await db.transaction(async (tx) => {
      await tx.query('set local synchronous_commit = off');
      const at = new Date(systemClock.nowMs());
      await tx.query(bareUpsert, [
        batchIds,
        repeat(at),
        repeat(10.1),
        repeat(30.3),
        repeat(JSON.stringify(heartbeatFields)),
      ]);
    });
  }
  return rows / secondsSince(startedMs);
}

/**
 * Measures, for a sample of batches, how long after the answer the last heartbeat of the batch is
 * in the table. `answered` is the latest answered batch; the sender updates it.
 */
async function watchLag(
  db: Database,
  ids: string[],
  since: Date,
  answered: { turn: number; atMs: number },
  lags: number[],
  isOver: () => boolean,
) {
  let lastSampledTurn = -1;
  while (!isOver()) {
    const { turn, atMs } = answered;
    if (turn === lastSampledTurn || turn < 0) {
      await pause(systemClock, 5);
      continue;
    }
    lastSampledTurn = turn;
    const id = ids[numberOf(turn * batch + batch - 1)];
    // No node sends two heartbeats in a round, so any newer time is that of the expected one.
    const isStored = async () =>
      (await db.query('select 1 from heartbeats where node_instance_id = $1 and last_seen_at >= $2', [id, since]))
        .length > 0;
    while (!(await isStored())) {
      if (secondsSince(atMs) > lostAfterSeconds) throw new Error('an answered heartbeat is not in the table');
      await pause(systemClock, 10);
    }
    lags.push(secondsSince(atMs) * 1000);
    await pause(systemClock, 100);
  }
}

/** Sends all batches of a round to the server. Returns heartbeats stored per second. */
async function runServerRound(
  served: RunningServer,
  db: Database,
  ids: string[],
  from: number,
  lags: number[],
): Promise<number> {
  const requests = Array.from({ length: batches }, (_, turn) => {
    const beats = Array.from({ length: batch }, (__, i) => ({
      credential: credentialOf(1 + numberOf(from + turn * batch + i)),
      status: 'ready',
      ...heartbeatFields,
    }));
    return post(served.port, '/v1/agent/heartbeats', JSON.stringify({ beats }));
  });
  const answered = { turn: -1, atMs: 0 };
  let isOver = false;
  const since = now(systemClock);
  const watching = watchLag(db, ids, since, answered, lags, () => isOver);
  const startedMs = systemClock.monotonicMs();
  await send(served.port, batches, connections, (turn) => {
    // A connection sends its next request only after the previous answer, so a batch this far back
    // has been answered, unless its connection is much slower than the others.
    if (turn >= connections) {
      answered.turn = from / batch + turn - connections;
      answered.atMs = systemClock.monotonicMs();
    }
    return requests[turn] as string;
  });
  isOver = true;
  await watching;
  const answeredMs = systemClock.monotonicMs();
  while ((await countSince(db, since)) < batches * batch) {
    if (secondsSince(answeredMs) > lostAfterSeconds) throw new Error('answered heartbeats are not in the table');
    // Counting costs the database as much as a few thousand heartbeats.
    await pause(systemClock, 100);
  }
  return (batches * batch) / secondsSince(startedMs);
}

const loadBefore = loadavg();
const directory = await freshDirectory();
const store = await startStore(directory);
const figures: Figure[] = [];
try {
  const first = await serveSlipway(directory, [...store.arguments(), ...unlimitedRateArguments]);
  await first.stop();
  const db = store.open();
  await fillFleet(db, { idle: nodes, inFlight: 0 });
  const ids = (
    await db.query<{ node_instance_id: string }>('select node_instance_id from instances order by node_instance_id')
  ).map((row) => row.node_instance_id);
  const slipway = await serveSlipway(directory, [...store.arguments(), ...unlimitedRateArguments]);
  const rates = { bare: [] as number[], slipway: [] as number[] };
  const spent = { server: [] as number[], database: [] as number[] };
  const [lags, warmUpLags]: [number[], number[]] = [[], []];
  const updates = { bare: { updated: 0, hot: 0 }, slipway: { updated: 0, hot: 0 } };
  const countUpdates = async <T>(sum: UpdateCounts, act: () => Promise<T>): Promise<T> => {
    const before = await readUpdateCounts(db);
    const result = await act();
    const after = await readUpdateCounts(db);
    sum.updated += after.updated - before.updated;
    sum.hot += after.hot - before.hot;
    return result;
  };
  try {
    // Every node sends one heartbeat first, so that all sessions are loaded.
    for (let from = 0; from < nodes; from += batches * batch) await runServerRound(slipway, db, ids, from, warmUpLags);
    await runBareRound(db, ids, 0);
    for (let turn = 0; turn < rounds; turn++) {
      const from = turn * batches * batch;
      rates.bare.push(await countUpdates(updates.bare, () => runBareRound(db, ids, from)));
      const before = readProcessors([slipway.pid], store.pid());
      rates.slipway.push(await countUpdates(updates.slipway, () => runServerRound(slipway, db, ids, from, lags)));
      const after = readProcessors([slipway.pid], store.pid());
      spent.server.push((((after.servers[0] ?? 0) - (before.servers[0] ?? 0)) * 1e6) / (batches * batch));
      spent.database.push(((after.database - before.database) * 1e6) / (batches * batch));
    }
  } finally {
    await slipway.stop();
    await db.close();
  }
  const ratios = rates.slipway.map((rate, turn) => rate / (rates.bare[turn] ?? Number.NaN));
  figures.push(
    { what: 'nodes', value: nodes, unit: '' },
    { what: 'bare upsert (baseline)', value: median(rates.bare), unit: 'beats/s', samples: rates.bare },
    {
      what: 'heartbeats stored, in batches of 100',
      value: median(rates.slipway),
      unit: 'beats/s',
      at_least: targetRate,
      samples: rates.slipway,
    },
    { what: 'this server / bare upsert', value: median(ratios), unit: '×', at_least: 0.7, samples: ratios },
    {
      what: 'delay from the answer to the stored row, p99',
      value: quantile(lags, 0.99),
      unit: 'ms',
      target: 1_000,
      samples: lags,
    },
    { what: 'CPU time of the server, per heartbeat', value: median(spent.server), unit: 'µs', samples: spent.server },
    {
      what: 'CPU time of PostgreSQL, per heartbeat',
      value: median(spent.database),
      unit: 'µs',
      samples: spent.database,
    },
    { what: 'HOT updates, bare upsert', value: (100 * updates.bare.hot) / updates.bare.updated, unit: '%' },
    { what: 'HOT updates, this server', value: (100 * updates.slipway.hot) / updates.slipway.updated, unit: '%' },
  );
} finally {
  await store.end();
  await removeDirectory(directory);
}
report(options, 'batches', figures, loadBefore);
