/**
 * Measures five hundred simultaneous allocations over HTTP, in activations per second. Each
 * allocation gets a free machine of an external pool, so no boot time is included. The baseline is
 * the bare engine on the same database server, running as many operations with as many empty steps.
 * Also reports how long each part of an operation takes.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { pause, systemClock } from '../src/base/clock.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import type { Database } from '../src/store/pg/database.ts';
import { cpuUsageBetween, readProcessors } from './fleet/processors.ts';
import { startBenchServer } from './harness/bench-database.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, median, quantile, report, secondsOf } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { fillFleet } from './harness/resting-fleet.ts';
import { startReplica } from './harness/server-process.ts';
import { measureBareRuns } from './operations/bare-runs.ts';

const options = readOptions(import.meta.url, {
  duration: 'about a minute',
  // Each round needs another pool with enough free machines.
  options: { ...common, rounds: { ...common.rounds, max: 5 } },
});
const { quick, rounds } = options;
const count = quick ? 200 : 500;
const nodes = 20_000;
/** Long enough that polling costs the database next to nothing. */
const pollMs = 100;
const pollOneMs = 5;
const targetRate = 30;
const token = 'swt_only-for-the-benchmarks-0123456789';

const say = (message: string) => process.stderr.write(`${message}\n`);

const loadBefore = loadavg();
const postgres = await startBenchServer(2);
const directory = await freshDirectory();

/** The seconds of each consecutive part of an operation. The column names are printed. */
const partsSql = `
  select extract(epoch from operation.started_at - operation.created_at)::double precision as "from queued to started",
    extract(epoch from allocation.active_at - operation.started_at)::double precision as "from started to a machine assigned and active",
    extract(epoch from operation.finished_at - allocation.active_at)::double precision as "from active to the end of the operation"
  from operations operation join allocations allocation using (allocation_id) where allocation.allocation_id = any($1)`;

/** Waits until the condition holds for all allocations. */
const waitForAll = async (db: Database, ids: string[], condition: string): Promise<void> => {
  const everyMs = ids.length === 1 ? pollOneMs : pollMs;
  const text = `select 1 from operations join allocations using (allocation_id) where allocation_id = any($1) and ${condition}`;
  while ((await db.query(text, [ids])).length < ids.length) await pause(systemClock, everyMs);
};

try {
  const db = await postgres.database('operations');
  await fillFleet(db, { idle: nodes, inFlight: 0 });
  const server = await startReplica(join(directory, 'data'), ['--database-url', db.url], {
    SLIPWAY_ADMIN_TOKEN: token,
  });
  const client = createClient({ base_url: server.url, token, addresses: routes });
  const allocate = async (pool: string, acknowledged: number[] = []): Promise<string> => {
    const startedMs = systemClock.monotonicMs();
    const { allocation } = await client.call('allocation-create', { body: { pool } });
    acknowledged.push(systemClock.monotonicMs() - startedMs);
    return allocation.allocation_id;
  };
  const isActive = `allocations.status = 'active'`;

  const alone: number[] = [];
  for (let turn = 0; turn < 10; turn++)
    alone.push(await secondsOf(async () => waitForAll(db, [await allocate('pool-0')], isActive)));

  say(`one allocation alone took ${median(alone).toFixed(3)} s`);
  const rates: number[] = [];
  const acknowledged: number[] = [];
  const spent: { server: number; database: number }[] = [];
  const durations: Record<string, number[]> = {};
  for (let turn = 0; turn < rounds; turn++) {
    const before = readProcessors([server.pid], postgres.pid);
    const ids: string[] = [];
    const seconds = await secondsOf(async () => {
      // Only pools with an even number have free machines.
      const requests = Array.from({ length: count }, () => allocate(`pool-${(2 * turn + 2) % 20}`, acknowledged));
      ids.push(...(await Promise.all(requests)));
      await waitForAll(db, ids, isActive);
    });
    rates.push(count / seconds);
    say(`${count} allocations at once took ${seconds.toFixed(1)} s`);
    await waitForAll(db, ids, `operations.status = 'succeeded'`);
    const after = readProcessors([server.pid], postgres.pid);
    const use = cpuUsageBetween(before, after);
    const elapsed = (after.atMs - before.atMs) / 1000;
    spent.push({ server: ((use.servers[0] ?? 0) * elapsed) / count, database: (use.database * elapsed) / count });
    for (const row of await db.query<Record<string, number>>(partsSql, [ids]))
      for (const [part, value] of Object.entries(row)) durations[part] = [...(durations[part] ?? []), value];
  }
  const steps = await db.query<{ name: string; seconds: number }>(
    `select name, extract(epoch from sum(finished_at - started_at))::double precision / count(*) as seconds from steps where finished_at is not null group by 1`,
  );
  await server.stop();
  const bare = await measureBareRuns(await postgres.database('bare'), count, steps.length);

  const ms = (values: number[], share: number) => 1000 * quantile(values, share);
  const figures: Figure[] = [
    { what: 'one allocation alone, from request to active', value: median(alone), unit: 's', samples: alone },
    {
      what: `${count} allocations at once, until all are active`,
      value: median(rates),
      unit: 'operations/s',
      at_least: targetRate,
      samples: rates,
    },
    { what: `bare engine with ${steps.length} empty steps (baseline)`, value: bare, unit: 'operations/s' },
    { what: '… this server / bare engine', value: median(rates) / bare, unit: '×' },
    {
      what: 'CPU time of the server, per operation',
      value: 1000 * median(spent.map(({ server }) => server)),
      unit: 'ms',
    },
    { what: '… of the database', value: 1000 * median(spent.map(({ database }) => database)), unit: 'ms' },
    { what: 'from request to acknowledgement, p50', value: quantile(acknowledged, 0.5), unit: 'ms' },
    ...Object.entries(durations).map(
      ([part, values]): Figure => ({
        what: `${part}, p50`,
        value: ms(values, 0.5),
        unit: 'ms',
      }),
    ),
    ...steps.map(({ name, seconds }): Figure => ({ what: `step ${name}`, value: 1000 * seconds, unit: 'ms' })),
  ];
  report(options, 'operations', figures, loadBefore, { medianOf: String(rounds) });
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
