/**
 * Measures how many heartbeats per second are accepted and stored in batches of a hundred, as
 * relays send them. The baseline is a bare upsert of the same rows, in alternating rounds. Also
 * reports how long after its answer a heartbeat is in the table, how many updates were HOT, and the
 * cost per heartbeat for the server and PostgreSQL.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import { type Database, single } from '../src/store/pg/database.ts';
import { type Served, serveSlipway, tireless } from './beats/processes.ts';
import { post, send } from './beats/sender.ts';
import { readProcessors } from './fleet/processors.ts';
import { startStore } from './fleet/store.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, median, quantile, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { credentialOf, fillFleet } from './harness/resting-fleet.ts';

const options = readOptions(import.meta.url, {
  takes: 'about two minutes; with --quick one',
  options: { ...common, nodes: { kind: 'count', otherwise: 200_000, what: 'size of the fleet' } },
});
const { quick, rounds, nodes } = options;
const batch = 100;
const batches = quick ? 600 : 1_500;
// No node beats twice in a round, so that each heartbeat is its own row.
if (nodes < batches * batch) throw new Error(`a round of ${batches * batch} beats needs at least as many nodes`);
const connections = 8;
/** How long to wait for an answered heartbeat to appear in the table. */
const lostAfterSeconds = 30;
/** The size of a flush at the target rate. */
const rowsAtOnce = 6_000;
const aim = 30_000;
const reported = { health_score: 97, error_rate: 0.01, active_tasks: 3 };

const bareUpsert = `
  insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, reported)
  select * from unnest($1::text[], $2::timestamptz[], $3::real[], $4::real[], $5::jsonb[])
  on conflict (node_instance_id) do update set last_seen_at = excluded.last_seen_at, interval_seconds = excluded.interval_seconds,
    stale_seconds = excluded.stale_seconds, reported = excluded.reported`;

/** Spreads consecutive turns over the table, so that neighbouring rows do not beat together. */
const numberOf = (turn: number) => (turn * 7919) % nodes;

interface Hot {
  updated: number;
  hot: number;
}

async function hotUpdates(db: Database): Promise<Hot> {
  await db.query('select pg_stat_force_next_flush()');
  return single(
    await db.query<Hot>(
      `select n_tup_upd::double precision as updated, n_tup_hot_upd::double precision as hot from pg_stat_user_tables where relname = 'heartbeats'`,
    ),
  );
}

const countSince = async (db: Database, since: Date): Promise<number> =>
  single(
    await db.query<{ found: number }>('select count(*)::int as found from heartbeats where last_seen_at >= $1', [
      since,
    ]),
  ).found;

const startedMs = () => systemClock.monotonicMs();
const secondsSince = (ms: number) => (systemClock.monotonicMs() - ms) / 1000;

/** Returns rows per second. */
async function bareRound(db: Database, ids: string[], from: number): Promise<number> {
  const began = startedMs();
  const rows = batches * batch;
  for (let first = 0; first < rows; first += rowsAtOnce) {
    const count = Math.min(rowsAtOnce, rows - first);
    const beatingIds = Array.from({ length: count }, (_, i) => ids[numberOf(from + first + i)] as string);
    const repeated = <T>(value: T) => beatingIds.map(() => value);
    await db.transaction(async (tx) => {
      await tx.query('set local synchronous_commit = off');
      const at = new Date(systemClock.nowMs());
      await tx.query(bareUpsert, [
        beatingIds,
        repeated(at),
        repeated(10.1),
        repeated(30.3),
        repeated(JSON.stringify(reported)),
      ]);
    });
  }
  return rows / secondsSince(began);
}

/**
 * Measures, for a sample of batches, how long after its answer the last heartbeat of a batch is in
 * the table.
 */
async function watchLag(
  db: Database,
  ids: string[],
  since: Date,
  answered: { turn: number; atMs: number },
  lags: number[],
  until: () => boolean,
) {
  let lastSampledTurn = -1;
  while (!until()) {
    const { turn, atMs } = answered;
    if (turn === lastSampledTurn || turn < 0) {
      await pause(systemClock, 5);
      continue;
    }
    lastSampledTurn = turn;
    const id = ids[numberOf(turn * batch + batch - 1)];
    // No node beats twice in a round, so any newer time is the expected heartbeat.
    const seen = async () =>
      (await db.query('select 1 from heartbeats where node_instance_id = $1 and last_seen_at >= $2', [id, since]))
        .length > 0;
    while (!(await seen())) {
      if (secondsSince(atMs) > lostAfterSeconds) throw new Error('a beat that was answered is not in the table');
      await pause(systemClock, 10);
    }
    lags.push(secondsSince(atMs) * 1000);
    await pause(systemClock, 100);
  }
}

async function ourRound(served: Served, db: Database, ids: string[], from: number, lags: number[]): Promise<number> {
  const requests = Array.from({ length: batches }, (_, turn) => {
    const beats = Array.from({ length: batch }, (__, i) => ({
      credential: credentialOf(1 + numberOf(from + turn * batch + i)),
      status: 'ready',
      ...reported,
    }));
    return post(served.port, '/v1/agent/heartbeats', JSON.stringify({ beats }));
  });
  const answered = { turn: -1, atMs: 0 };
  let over = false;
  const since = now(systemClock);
  const watching = watchLag(db, ids, since, answered, lags, () => over);
  const began = startedMs();
  await send(served.port, batches, connections, (turn) => {
    // A connection sends its next request only after the previous answer, so a batch this far back
    // has been answered.
    if (turn >= connections) {
      answered.turn = from / batch + turn - connections;
      answered.atMs = systemClock.monotonicMs();
    }
    return requests[turn] as string;
  });
  over = true;
  await watching;
  const answeredMs = startedMs();
  while ((await countSince(db, since)) < batches * batch) {
    if (secondsSince(answeredMs) > lostAfterSeconds) throw new Error('beats that were answered are not in the table');
    // Counting costs the database as much as a few thousand heartbeats.
    await pause(systemClock, 100);
  }
  return (batches * batch) / secondsSince(began);
}

const loadBefore = loadavg();
const directory = await freshDirectory();
const store = await startStore(directory);
const figures: Figure[] = [];
try {
  const first = await serveSlipway(directory, [...store.arguments(), ...tireless]);
  await first.stop();
  const db = store.open();
  await fillFleet(db, { idle: nodes, inFlight: 0 });
  const ids = (
    await db.query<{ node_instance_id: string }>('select node_instance_id from instances order by node_instance_id')
  ).map((row) => row.node_instance_id);
  const ours = await serveSlipway(directory, [...store.arguments(), ...tireless]);
  const rates = { bare: [] as number[], ours: [] as number[] };
  const spent = { server: [] as number[], database: [] as number[] };
  const [lags, unmeasured]: [number[], number[]] = [[], []];
  const hot: { bare: Hot; ours: Hot } = { bare: { updated: 0, hot: 0 }, ours: { updated: 0, hot: 0 } };
  const counted = async <T>(into: Hot, act: () => Promise<T>): Promise<T> => {
    const before = await hotUpdates(db);
    const result = await act();
    const after = await hotUpdates(db);
    into.updated += after.updated - before.updated;
    into.hot += after.hot - before.hot;
    return result;
  };
  try {
    // Every node beats once first, so that all sessions are loaded.
    for (let from = 0; from < nodes; from += batches * batch) await ourRound(ours, db, ids, from, unmeasured);
    await bareRound(db, ids, 0);
    for (let turn = 0; turn < rounds; turn++) {
      const from = turn * batches * batch;
      rates.bare.push(await counted(hot.bare, () => bareRound(db, ids, from)));
      const before = readProcessors([ours.pid], store.pid());
      rates.ours.push(await counted(hot.ours, () => ourRound(ours, db, ids, from, lags)));
      const after = readProcessors([ours.pid], store.pid());
      spent.server.push((((after.servers[0] ?? 0) - (before.servers[0] ?? 0)) * 1e6) / (batches * batch));
      spent.database.push(((after.database - before.database) * 1e6) / (batches * batch));
    }
  } finally {
    await ours.stop();
    await db.close();
  }
  const ratios = rates.ours.map((rate, turn) => rate / (rates.bare[turn] ?? Number.NaN));
  figures.push(
    { what: 'nodes', value: nodes, unit: '' },
    { what: 'bare upsert', value: median(rates.bare), unit: 'beats/s', samples: rates.bare },
    { what: 'batches of a hundred', value: median(rates.ours), unit: 'beats/s', at_least: aim, samples: rates.ours },
    { what: 'against the bare upsert', value: median(ratios), unit: '×', at_least: 0.7, samples: ratios },
    {
      what: 'in the table after its answer, p99',
      value: quantile(lags, 0.99),
      unit: 'ms',
      target: 1_000,
      samples: lags,
    },
    { what: 'server for each beat', value: median(spent.server), unit: 'µs', samples: spent.server },
    { what: 'PostgreSQL for each beat', value: median(spent.database), unit: 'µs', samples: spent.database },
    { what: 'updates in their page, bare', value: (100 * hot.bare.hot) / hot.bare.updated, unit: '%' },
    { what: 'updates in their page, ours', value: (100 * hot.ours.hot) / hot.ours.updated, unit: '%' },
  );
} finally {
  await store.end();
  await removeDirectory(directory);
}
report(options, 'batches', figures, loadBefore);
