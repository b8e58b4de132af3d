/**
 * Measures the cost of a heartbeat in a small and in a large fleet. Batches of heartbeats go at the
 * same rate to a replica with ten thousand nodes and to one with a million. The cost is all CPU
 * time of the server and its database, including supervision. The two fleets are measured in short
 * alternating turns, so that other load on the machine affects both.
 */
import { loadavg } from 'node:os';
import { openStore, startServer } from './fleet/scene.ts';
import { sendBatches } from './fleet/send-batches.ts';
import type { Store } from './fleet/store.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import type { Replica } from './harness/server-process.ts';

const options = readOptions(import.meta.url, {
  duration: 'about eight minutes; with --quick three',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
const rate = quick ? 4_000 : 8_000;
/** Turns are short enough that no node of either fleet becomes stale. */
const small = { nodes: 10_000, turnSeconds: 4 };
const large = { nodes: quick ? 100_000 : 1_000_000, turnSeconds: 12 };
const rounds = quick ? 3 : 7;
/**
 * Warms up until every node has sent two heartbeats. The first one loads the agent's session, and
 * the garbage from loading is collected later. Neither is part of a heartbeat's cost.
 */
const warmUpSeconds = (nodes: number) => Math.max(20, (2 * nodes) / rate);
const maxRatio = 1.2;

const say = (message: string) => process.stderr.write(`${message}\n`);

interface Fleet {
  nodes: number;
  directory: string;
  store: Store;
  replica: Replica;
  /** The turn at which the next load begins. */
  nextTurn: number;
}

/** Microseconds of CPU time per heartbeat. */
interface Cost {
  server: number;
  database: number;
}

async function measureCost(fleet: Fleet, seconds: number): Promise<Cost> {
  const { replica, store, nodes, nextTurn } = fleet;
  const load = { replicas: [replica], postmaster: store.pid(), nodes, rate, seconds, firstTurn: nextTurn };
  const { answered_per_second, use } = await sendBatches(load);
  fleet.nextTurn += seconds * rate;
  const us = (share: number) => (1e6 * share) / answered_per_second;
  const cost = { server: us(use.servers[0] ?? 0), database: us(use.database) };
  say(
    `${nodes} nodes: ${answered_per_second.toFixed(0)} beats/s, server ${cost.server.toFixed(1)} µs, database ${cost.database.toFixed(1)} µs`,
  );
  return cost;
}

async function startWarmFleet(nodes: number): Promise<Fleet> {
  const directory = await freshDirectory();
  const store = await openStore(directory, { nodes, rate });
  const fleet = { nodes, directory, store, replica: await startServer(directory, store, rate), nextTurn: 0 };
  await measureCost(fleet, warmUpSeconds(nodes));
  return fleet;
}

async function stopFleet({ replica, store, directory }: Fleet): Promise<void> {
  await replica.stop();
  await store.end();
  await removeDirectory(directory);
}

const loadBefore = loadavg();
// The large fleet starts first, because its nodes can be silent for longer before they are stale.
const fleets = { large: await startWarmFleet(large.nodes), small: await startWarmFleet(small.nodes) };
const costs: Record<keyof typeof fleets, Cost>[] = [];
try {
  for (let round = 0; round < rounds; round++)
    costs.push({
      small: await measureCost(fleets.small, small.turnSeconds),
      large: await measureCost(fleets.large, large.turnSeconds),
    });
} finally {
  for (const fleet of Object.values(fleets)) await stopFleet(fleet);
}

/**
 * Uses the mean of all turns, not the median, because rare work such as garbage collection falls
 * into only a few turns.
 */
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const figureOf = (what: string, samples: number[]): Figure => ({ what, value: mean(samples), unit: 'µs', samples });
const costsOf = (which: keyof typeof fleets, part: keyof Cost) => costs.map((cost) => cost[which][part]);
const totalsOf = (which: keyof typeof fleets) => costs.map((cost) => cost[which].server + cost[which].database);
report(
  options,
  'flat',
  [
    figureOf(`${small.nodes} nodes: server, per heartbeat`, costsOf('small', 'server')),
    figureOf('… database', costsOf('small', 'database')),
    figureOf(`${large.nodes} nodes: server, per heartbeat`, costsOf('large', 'server')),
    figureOf('… database', costsOf('large', 'database')),
    {
      what: `server and database: ${large.nodes} nodes / ${small.nodes} nodes`,
      value: mean(totalsOf('large')) / mean(totalsOf('small')),
      ...{ unit: '×', target: maxRatio },
    },
  ],
  loadBefore,
  { medianOf: 'one run', notes: [`each figure is the mean of ${rounds} turns; the two fleets took turns`] },
);
