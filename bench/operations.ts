/**
 * Five hundred allocations at once without boot time: each gets a free machine of an external pool,
 * so only our own cost remains. Measures activations per second over HTTP, compared with bare
 * engine runs with as many empty steps on the same database server, and breaks the time down by the
 * operations' rows.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { pause, systemClock } from '../src/base/clock.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import type { Database } from '../src/store/pg/database.ts';
import { readProcessors, useBetween } from './fleet/processors.ts';
import { startBenchServer } from './harness/bench-database.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, median, quantile, report, secondsOf } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { fillFleet } from './harness/resting-fleet.ts';
import { startReplica } from './harness/server-process.ts';
import { bareRuns } from './operations/bare-runs.ts';

const options = readOptions(import.meta.url, {
  takes: 'about a minute',
  options: common,
});
const { quick, rounds } = options;
const count = quick ? 200 : 500;
const turns = Math.min(rounds, 5);
const nodes = 20_000;
/** Rare enough that polling costs the database next to nothing. */
const lookEveryMs = 100;
const aloneEveryMs = 5;
const target = 30;
const token = 'swt_of-the-bench-and-of-nobody-else';

const say = (what: string) => process.stderr.write(`${what}\n`);

const loadBefore = loadavg();
const postgres = await startBenchServer(2);
const directory = await freshDirectory();

/** Seconds of each consecutive part, from the request to the end. */
const parts = `
  select extract(epoch from operation.started_at - operation.created_at)::double precision as "queued, until the engine has it",
    extract(epoch from allocation.active_at - operation.started_at)::double precision as "started, until a machine is assigned and active",
    extract(epoch from operation.finished_at - allocation.active_at)::double precision as "active, until the operation is over"
  from operations operation join allocations allocation using (allocation_id) where allocation.allocation_id = any($1)`;

const all = async (db: Database, ids: string[], condition: string): Promise<void> => {
  const everyMs = ids.length === 1 ? aloneEveryMs : lookEveryMs;
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
    alone.push(await secondsOf(async () => all(db, [await allocate('pool-0')], isActive)));

  say(`one alone takes ${median(alone).toFixed(3)} s`);
  const rates: number[] = [];
  const acknowledged: number[] = [];
  const spent: { server: number; database: number }[] = [];
  const durations: Record<string, number[]> = {};
  for (let turn = 0; turn < turns; turn++) {
    const before = readProcessors([server.pid], postgres.pid);
    const ids: string[] = [];
    const seconds = await secondsOf(async () => {
      // Every second pool is empty; half of the others' machines are in use.
      const made = Array.from({ length: count }, () => allocate(`pool-${(2 * turn + 2) % 20}`, acknowledged));
      ids.push(...(await Promise.all(made)));
      await all(db, ids, isActive);
    });
    rates.push(count / seconds);
    say(`${count} at once took ${seconds.toFixed(1)} s`);
    await all(db, ids, `operations.status = 'succeeded'`);
    const after = readProcessors([server.pid], postgres.pid);
    const use = useBetween(before, after);
    const whole = (after.atMs - before.atMs) / 1000;
    spent.push({ server: ((use.servers[0] ?? 0) * whole) / count, database: (use.database * whole) / count });
    for (const row of await db.query<Record<string, number>>(parts, [ids]))
      for (const [part, value] of Object.entries(row)) durations[part] = [...(durations[part] ?? []), value];
  }
  const steps = await db.query<{ name: string; seconds: number }>(
    `select name, extract(epoch from sum(finished_at - started_at))::double precision / count(*) as seconds from steps where finished_at is not null group by 1`,
  );
  await server.stop();
  const bare = await bareRuns(await postgres.database('bare'), count, steps.length);

  const ms = (values: number[], share: number) => 1000 * quantile(values, share);
  const figures: Figure[] = [
    { what: 'one alone, asked until active', value: median(alone), unit: 's', samples: alone },
    {
      what: `${count} at once, all active`,
      value: median(rates),
      unit: 'operations/s',
      at_least: target,
      samples: rates,
    },
    { what: `bare runs of the engine with ${steps.length} empty steps`, value: bare, unit: 'operations/s' },
    { what: '… ours / bare', value: median(rates) / bare, unit: '×' },
    { what: 'processor of the server, an operation', value: 1000 * median(spent.map((s) => s.server)), unit: 'ms' },
    { what: '… of the database', value: 1000 * median(spent.map((s) => s.database)), unit: 'ms' },
    { what: 'asked, until it is acknowledged, p50', value: quantile(acknowledged, 0.5), unit: 'ms' },
    ...Object.entries(durations).map(
      ([part, values]): Figure => ({
        what: `${part}, p50`,
        value: ms(values, 0.5),
        unit: 'ms',
      }),
    ),
    ...steps.map(({ name, seconds }): Figure => ({ what: `step ${name}`, value: 1000 * seconds, unit: 'ms' })),
  ];
  report(options, 'operations', figures, loadBefore, { medianOf: String(turns) });
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
