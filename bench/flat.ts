/**
 * What a beat costs in a small fleet and in a large one: the same beats a second, in batches, to one replica with ten thousand nodes
 * behind it and with a million, each of whom beats in its turn. Counted is all the processor time of the server and of the
 * database, with whatever watches over such a fleet.
 */
import { loadavg } from 'node:os';
import { offer } from './fleet/offer.ts';
import { type FleetOptions, options as given } from './fleet/options.ts';
import { openStore, startServer } from './fleet/scene.ts';
import { type Figure, quick, report } from './measure.ts';
import { freshDirectory, removeDirectory } from './server-process.ts';

const sizes = quick ? [10_000, 100_000] : [10_000, 1_000_000];
const rate = quick ? 4_000 : 8_000;
const beatSeconds = quick ? 15 : 60;
/**
 * Until everybody has been heard twice. By the first beat the replica learns its agent, and what learning left behind is collected while the
 * next ones come; neither is part of a beat.
 */
const settleSeconds = (nodes: number) => Math.max(20, (2 * nodes) / rate);
const band = 1.2;

const say = (what: string) => process.stderr.write(`${what}\n`);

interface Cost {
  nodes: number;
  /** Microseconds for each beat. */
  server: number;
  database: number;
}

async function costAt(nodes: number): Promise<Cost> {
  const directory = await freshDirectory();
  const fleet: FleetOptions = { ...given, nodes, rate };
  const store = await openStore(directory, fleet);
  try {
    const replica = await startServer(directory, store, rate);
    const asked = { replicas: [replica], postmaster: store.pid(), nodes, rate };
    await offer({ ...asked, seconds: settleSeconds(nodes), from: 0 });
    const { answered, use } = await offer({ ...asked, seconds: beatSeconds, from: settleSeconds(nodes) * rate });
    await replica.stop();
    const us = (share: number) => (1e6 * share) / answered;
    const cost = { nodes, server: us(use.servers[0] ?? 0), database: us(use.database) };
    say(
      `${nodes} nodes: ${answered.toFixed(0)} beats/s, server ${cost.server.toFixed(1)} µs, database ${cost.database.toFixed(1)} µs`,
    );
    return cost;
  } finally {
    await store.end();
    await removeDirectory(directory);
  }
}

const loadBefore = loadavg();
const costs: Cost[] = [];
for (const nodes of sizes) costs.push(await costAt(nodes));
const [small, large] = [costs[0], costs.at(-1)];
const figures = costs.flatMap(({ nodes, server, database }): Figure[] => [
  { what: `${nodes} nodes: server, a beat`, value: server, unit: 'µs' },
  { what: '… database', value: database, unit: 'µs' },
]);
if (small && large) {
  const ratio = (large.server + large.database) / (small.server + small.database);
  figures.push({ what: `${large.nodes} / ${small.nodes}`, value: ratio, unit: '×', target: band });
}
report('flat', figures, loadBefore, { medianOf: 'one run' });
