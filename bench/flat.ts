/**
 * Measures the cost of a heartbeat in a small and a large fleet. It sends batches at the same rate
 * to a replica with ten thousand nodes and to one with a million, each node in turn. Counts all CPU
 * time of the server and its database, including supervision. Both are measured side by side in
 * short turns, so that other load slows both.
 */
import { loadavg } from 'node:os';
import { offer } from './fleet/offer.ts';
import { openStore, startServer } from './fleet/scene.ts';
import type { Store } from './fleet/store.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import type { Replica } from './harness/server-process.ts';

const options = readOptions(import.meta.url, {
  takes: 'about eight minutes; with --quick three',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
const rate = quick ? 4_000 : 8_000;
/** Turns are short enough that no node of either fleet becomes stale. */
const small = { nodes: 10_000, turnSeconds: 4 };
const large = { nodes: quick ? 100_000 : 1_000_000, turnSeconds: 12 };
const rounds = quick ? 3 : 7;
/**
 * Warms up until every node has beaten twice. The first heartbeat loads the agent's session, and
 * the garbage of that is collected during the next ones. Neither is part of a heartbeat's cost.
 */
const settleSeconds = (nodes: number) => Math.max(20, (2 * nodes) / rate);
const band = 1.2;

const say = (what: string) => process.stderr.write(`${what}\n`);

interface Fleet {
  nodes: number;
  directory: string;
  store: Store;
  replica: Replica;
  /** The next node to beat. */
  from: number;
}

/** Returns microseconds per heartbeat. */
interface Cost {
  server: number;
  database: number;
}

async function listen(fleet: Fleet, seconds: number): Promise<Cost> {
  const { replica, store, nodes, from } = fleet;
  const query = { replicas: [replica], postmaster: store.pid(), nodes, rate, seconds, from };
  const { answered, use } = await offer(query);
  fleet.from += seconds * rate;
  const us = (share: number) => (1e6 * share) / answered;
  const cost = { server: us(use.servers[0] ?? 0), database: us(use.database) };
  say(
    `${nodes} nodes: ${answered.toFixed(0)} beats/s, server ${cost.server.toFixed(1)} µs, database ${cost.database.toFixed(1)} µs`,
  );
  return cost;
}

async function settled(nodes: number): Promise<Fleet> {
  const directory = await freshDirectory();
  const store = await openStore(directory, { nodes, rate });
  const fleet = { nodes, directory, store, replica: await startServer(directory, store, rate), from: 0 };
  await listen(fleet, settleSeconds(nodes));
  return fleet;
}

async function end({ replica, store, directory }: Fleet): Promise<void> {
  await replica.stop();
  await store.end();
  await removeDirectory(directory);
}

const loadBefore = loadavg();
// The large fleet first: it can be left alone for longer.
const fleets = { large: await settled(large.nodes), small: await settled(small.nodes) };
const costs: Record<keyof typeof fleets, Cost>[] = [];
try {
  for (let round = 0; round < rounds; round++)
    costs.push({
      small: await listen(fleets.small, small.turnSeconds),
      large: await listen(fleets.large, large.turnSeconds),
    });
} finally {
  for (const fleet of Object.values(fleets)) await end(fleet);
}

/**
 * Uses the mean of all turns, not the median, because rare work such as garbage collection falls
 * into only a few turns.
 */
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const figureOf = (what: string, samples: number[]): Figure => ({ what, value: mean(samples), unit: 'µs', samples });
const of = (which: keyof typeof fleets, part: keyof Cost) => costs.map((cost) => cost[which][part]);
const wholeOf = (which: keyof typeof fleets) => costs.map((cost) => cost[which].server + cost[which].database);
report(
  options,
  'flat',
  [
    figureOf(`${small.nodes} nodes: server, a beat`, of('small', 'server')),
    figureOf('… database', of('small', 'database')),
    figureOf(`${large.nodes} nodes: server, a beat`, of('large', 'server')),
    figureOf('… database', of('large', 'database')),
    {
      what: `${large.nodes} / ${small.nodes}`,
      value: mean(wholeOf('large')) / mean(wholeOf('small')),
      ...{ unit: '×', target: band },
    },
  ],
  loadBefore,
  { medianOf: 'one run', notes: [`the mean of ${rounds} turns; the two fleets were heard by turns`] },
);
