/**
 * What a beat costs in a small fleet and in a large one: the same beats a second, in batches, to a replica with ten thousand nodes
 * behind it and to one with a million, each of whom beats in its turn. Counted is all the processor time of the server and of its
 * database, with whatever watches over such a fleet. Both stand side by side and are measured in short turns, so that whatever else
 * slows the machine slows both.
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
/** A turn of the small fleet is over before anybody in it could be missed, and so is one of the large fleet. */
const small = { nodes: 10_000, turnSeconds: 4 };
const large = { nodes: quick ? 100_000 : 1_000_000, turnSeconds: 12 };
const rounds = quick ? 3 : 7;
/**
 * Until everybody has been heard twice. By the first beat the replica learns its agent, and what learning left behind is collected while the
 * next ones come; neither is part of a beat.
 */
const settleSeconds = (nodes: number) => Math.max(20, (2 * nodes) / rate);
const band = 1.2;

const say = (what: string) => process.stderr.write(`${what}\n`);

interface Fleet {
  nodes: number;
  directory: string;
  store: Store;
  replica: Replica;
  /** Whose turn is next. */
  from: number;
}

/** Microseconds for each beat. */
interface Cost {
  server: number;
  database: number;
}

async function listen(fleet: Fleet, seconds: number): Promise<Cost> {
  const { replica, store, nodes, from } = fleet;
  const asked = { replicas: [replica], postmaster: store.pid(), nodes, rate, seconds, from };
  const { answered, use } = await offer(asked);
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
// The large one first: it may be left alone for longer.
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

/** Of all turns, and not the usual one: what is collected or looked at seldom is in one turn of several. */
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
