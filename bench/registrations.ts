/**
 * Measures the cost of a machine that joins a small and a large pool. Machines register with a join
 * token and then send their first ready heartbeat, at a steady rate. Then many machines register at
 * once, like a rack. The cost is the CPU time of server and database without their idle load. The
 * machines that are already in the pool are written in bulk and send no heartbeats.
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
  duration: 'about three minutes; with --quick two',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
const sizes = [2_000, 200_000];
const count = quick ? 150 : 500;
const everyMs = 40;
const idleSeconds = quick ? 8 : 20;
/** Connections while a rack registers. */
const maxConnections = 100;
const maxRatio = 1.2;
const token = 'swt_only-for-the-benchmarks-0123456789';
const neededGb = 3;

const say = (message: string) => process.stderr.write(`${message}\n`);

interface CpuTime {
  server: number;
  database: number;
}

/** Milliseconds of CPU time per request without the idle load, and the median response time. */
type Cost = CpuTime & { responseMs: number };

interface Costs {
  nodes: number;
  joins: Cost;
  ready: Cost;
  rack: Cost;
}

const cpuTimeBetween = (before: Reading, after: Reading): CpuTime & { seconds: number } => ({
  server: (after.servers[0] ?? 0) - (before.servers[0] ?? 0),
  database: after.database - before.database,
  seconds: (after.atMs - before.atMs) / 1000,
});

/** CPU use below which the server and the database count as idle. */
const idleShare = 0.15;
const maxSettleTurns = 60;

const loadBefore = loadavg();
const postgres = await startBenchServer(neededGb);

async function measureCosts(nodes: number, directory: string): Promise<Costs> {
  const db = await postgres.database(`registrations_${nodes}`);
  await fillFleet(db, { idle: nodes, inFlight: 0, pools: 1 });
  const server = await startReplica(join(directory, String(nodes)), ['--database-url', db.url], {
    SLIPWAY_ADMIN_TOKEN: token,
  });
  const client = createClient({ base_url: server.url, token, addresses: routes });
  const { token: join_token } = await client.call('join-token-create', { params: { pool: 'pool-0' } });
  const sockets = new Agent({ keepAlive: true, maxSockets: maxConnections });
  const read = () => readProcessors([server.pid], postgres.pid);

  /** The mean CPU use over a time without requests. */
  const measureIdle = async (seconds: number): Promise<CpuTime> => {
    const before = read();
    await pause(systemClock, seconds * 1000);
    const spent = cpuTimeBetween(before, read());
    return { server: spent.server / spent.seconds, database: spent.database / spent.seconds };
  };
  /** Waits until the server has loaded its fleet, because loading is not part of a registration. */
  const settle = async () => {
    for (let turn = 0; turn < maxSettleTurns; turn++) {
      const { server: serverShare, database } = await measureIdle(2);
      if (serverShare < idleShare && database < idleShare) return;
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

  const measure = async (
    idle: CpuTime,
    requests: number,
    pauseMs: number,
    act: (place: number) => Promise<unknown>,
  ) => {
    const responseMs: number[] = [];
    const before = read();
    const timeRequest = async (place: number) => {
      const sentMs = systemClock.monotonicMs();
      await act(place);
      responseMs.push(systemClock.monotonicMs() - sentMs);
    };
    const running: Promise<void>[] = [];
    for (let place = 0; place < requests; place++) {
      running.push(timeRequest(place));
      if (pauseMs > 0) await pause(systemClock, pauseMs);
    }
    await Promise.all(running);
    // Followers of the evidence finish a moment later.
    await pause(systemClock, 1_000);
    const { seconds, ...spent } = cpuTimeBetween(before, read());
    const costOf = (part: keyof CpuTime) => (1000 * (spent[part] - idle[part] * seconds)) / requests;
    return { server: costOf('server'), database: costOf('database'), responseMs: median(responseMs) };
  };

  await settle();
  for (let place = 0; place < 30; place++) await register(`first-${place}`);
  await settle();
  const idle = await measureIdle(idleSeconds);
  const joins = await measure(idle, count, everyMs, (place) => register(`one-${place}`));
  const ready = await measure(idle, count, everyMs, (place) =>
    ask('/v1/agent/heartbeat', { status: 'ready' }, credentials[place]),
  );
  const rack = await measure(idle, 2 * count, 0, (place) => register(`rack-${place}`));
  sockets.destroy();
  await server.stop();
  const parts = Object.entries({ joins, ready, rack }).map(
    ([name, cost]) =>
      `${name} ${cost.server.toFixed(1)} + ${cost.database.toFixed(1)} ms, answered after ${cost.responseMs.toFixed(0)} ms`,
  );
  say(
    `${nodes} nodes, server + database: idle ${idle.server.toFixed(3)} + ${idle.database.toFixed(3)} CPUs; ${parts.join('; ')}`,
  );
  return { nodes, joins, ready, rack };
}

const acts = {
  joins: 'a machine joins',
  ready: 'a first heartbeat makes a machine ready',
  rack: `one of ${2 * count} machines that join at once`,
} as const;

const directory = await freshDirectory();
try {
  const costs: Costs[] = [];
  for (const nodes of sizes) costs.push(await measureCosts(nodes, directory));
  const [small, large] = [costs[0], costs.at(-1)];
  const total = ({ server, database }: Cost) => server + database;
  const figures = (Object.keys(acts) as (keyof typeof acts)[]).flatMap((act): Figure[] => [
    ...costs.flatMap((each): Figure[] => [
      { what: `${acts[act]}, ${each.nodes} nodes: CPU time of the server`, value: each[act].server, unit: 'ms' },
      { what: '… CPU time of the database', value: each[act].database, unit: 'ms' },
      { what: '… response time, p50', value: each[act].responseMs, unit: 'ms' },
    ]),
    ...(small && large
      ? [
          {
            what: `${acts[act]}: CPU time with ${large.nodes} nodes / with ${small.nodes} nodes`,
            value: total(large[act]) / total(small[act]),
            unit: '×' as const,
            target: maxRatio,
          },
        ]
      : []),
  ]);
  report(options, 'registrations', figures, loadBefore, { medianOf: 'one run' });
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
