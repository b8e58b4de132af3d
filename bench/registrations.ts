/**
 * Measures the cost of a machine that joins a small and a large pool: registrations by join token
 * and the first ready heartbeat, at a steady rate, then a whole rack at once. Counts CPU time of
 * server and database without their idle load. The fleet is written in bulk and does not beat
 * meanwhile.
 */
import { Agent } from 'node:http';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { pause, systemClock } from '../src/base/clock.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import { post } from './fleet/post.ts';
import { type Reading, readProcessors } from './fleet/processors.ts';
import { startBenchServer } from './harness/bench-database.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, median, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { fillFleet } from './harness/resting-fleet.ts';
import { startReplica } from './harness/server-process.ts';

const options = readOptions(import.meta.url, {
  takes: 'about three minutes; with --quick two',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
const sizes = [2_000, 200_000];
const count = quick ? 150 : 500;
const everyMs = 40;
const restSeconds = quick ? 8 : 20;
/** Connections of a rack. */
const atOnce = 100;
const band = 1.2;
const token = 'swt_of-the-bench-and-of-nobody-else';
const neededGb = 3;

const say = (what: string) => process.stderr.write(`${what}\n`);

interface Spent {
  server: number;
  database: number;
}

/** Returns milliseconds of CPU time per action, without the idle load. */
type Cost = Spent & { waitedMs: number };

interface Costs {
  nodes: number;
  joins: Cost;
  ready: Cost;
  rack: Cost;
}

const between = (before: Reading, after: Reading): Spent & { seconds: number } => ({
  server: (after.servers[0] ?? 0) - (before.servers[0] ?? 0),
  database: after.database - before.database,
  seconds: (after.atMs - before.atMs) / 1000,
});

const settledShare = 0.15;
const maxSettleTurns = 60;

const loadBefore = loadavg();
const postgres = await startBenchServer(neededGb);

async function costsAt(nodes: number, directory: string): Promise<Costs> {
  const db = await postgres.database(`registrations_${nodes}`);
  await fillFleet(db, { idle: nodes, inFlight: 0, pools: 1 });
  const server = await startReplica(join(directory, String(nodes)), ['--database-url', db.url], {
    SLIPWAY_ADMIN_TOKEN: token,
  });
  const client = createClient({ base_url: server.url, token, addresses: routes });
  const { token: join_token } = await client.call('join-token-create', { params: { pool: 'pool-0' } });
  const sockets = new Agent({ keepAlive: true, maxSockets: atOnce });
  const read = () => readProcessors([server.pid], postgres.pid);

  const over = async (seconds: number): Promise<Spent> => {
    const before = read();
    await pause(systemClock, seconds * 1000);
    const spent = between(before, read());
    return { server: spent.server / spent.seconds, database: spent.database / spent.seconds };
  };
  /** A server that has just started loads its fleet, which is not part of a registration. */
  const settle = async () => {
    for (let turn = 0; turn < maxSettleTurns; turn++) {
      const { server: ours, database } = await over(2);
      if (ours < settledShare && database < settledShare) return;
    }
  };

  const ask = async (path: string, body: object, bearer?: string): Promise<string> => {
    const { status, text } = await post(new URL(path, server.url), sockets, JSON.stringify(body), bearer);
    if (status >= 300) throw new Error(`${path} was answered with ${status}: ${text}`);
    return text;
  };
  const credentials: string[] = [];
  const register = async (name: string) => {
    const text = await ask('/v1/agent/register', { join_token, name, version: 'bench' });
    credentials.push((JSON.parse(text) as { credential: string }).credential);
  };

  const measured = async (rest: Spent, acts: number, pauseMs: number, act: (place: number) => Promise<unknown>) => {
    const waitedMs: number[] = [];
    const before = read();
    const timed = async (place: number) => {
      const askedMs = systemClock.monotonicMs();
      await act(place);
      waitedMs.push(systemClock.monotonicMs() - askedMs);
    };
    const running: Promise<void>[] = [];
    for (let place = 0; place < acts; place++) {
      running.push(timed(place));
      if (pauseMs > 0) await pause(systemClock, pauseMs);
    }
    await Promise.all(running);
    // Followers of the evidence finish a moment later.
    await pause(systemClock, 1_000);
    const { seconds, ...spent } = between(before, read());
    const each = (of: keyof Spent) => (1000 * (spent[of] - rest[of] * seconds)) / acts;
    return { server: each('server'), database: each('database'), waitedMs: median(waitedMs) };
  };

  await settle();
  for (let place = 0; place < 30; place++) await register(`first-${place}`);
  await settle();
  const rest = await over(restSeconds);
  const joins = await measured(rest, count, everyMs, (place) => register(`one-${place}`));
  const ready = await measured(rest, count, everyMs, (place) =>
    ask('/v1/agent/heartbeat', { status: 'ready' }, credentials[place]),
  );
  const rack = await measured(rest, 2 * count, 0, (place) => register(`rack-${place}`));
  sockets.destroy();
  await server.stop();
  const parts = Object.entries({ joins, ready, rack }).map(
    ([name, cost]) =>
      `${name} ${cost.server.toFixed(1)} + ${cost.database.toFixed(1)} ms, waited ${cost.waitedMs.toFixed(0)} ms`,
  );
  say(`${nodes} nodes: at rest ${rest.server.toFixed(3)} + ${rest.database.toFixed(3)} cores; ${parts.join('; ')}`);
  return { nodes, joins, ready, rack };
}

const acts = {
  joins: 'a machine joins',
  ready: 'its first beat makes it ready',
  rack: `one of ${2 * count} that join at once`,
} as const;

const directory = await freshDirectory();
try {
  const costs: Costs[] = [];
  for (const nodes of sizes) costs.push(await costsAt(nodes, directory));
  const [small, large] = [costs[0], costs.at(-1)];
  const whole = ({ server, database }: Cost) => server + database;
  const figures = (Object.keys(acts) as (keyof typeof acts)[]).flatMap((act): Figure[] => [
    ...costs.flatMap((each): Figure[] => [
      { what: `${acts[act]}, ${each.nodes} nodes: server`, value: each[act].server, unit: 'ms' },
      { what: '… database', value: each[act].database, unit: 'ms' },
      { what: '… waited, p50', value: each[act].waitedMs, unit: 'ms' },
    ]),
    ...(small && large
      ? [
          {
            what: `… ${large.nodes} / ${small.nodes}`,
            value: whole(large[act]) / whole(small[act]),
            unit: '×' as const,
            target: band,
          },
        ]
      : []),
  ]);
  report(options, 'registrations', figures, loadBefore, { medianOf: 'one run' });
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
