/**
 * Measures the time of each list page, count and search in fleets of ten thousand, a hundred
 * thousand and a million nodes, while heartbeats are written. The baseline is a read of fifty nodes
 * by primary key. Also measures how much the triggers that maintain the counts slow down
 * transitions. Exits with 1 if a read is too slow or grows too much with the fleet.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import type { NodeId } from '../src/base/ids.ts';
import { tenantOnly, wholeFleet } from '../src/lifecycle/visibility.ts';
import { readCitedEvidence } from '../src/store/evidence/explanation-evidence.ts';
import { listOperations } from '../src/store/operations/operations.ts';
import type { Database } from '../src/store/pg/database.ts';
import { listAllocations } from '../src/store/rows/allocations.ts';
import { countByStatus, countFleet, countHeld, foldCounts, verifyCounts } from '../src/store/rows/counts.ts';
import { readFencedAges } from '../src/store/rows/fenced-ages.ts';
import { resolveId } from '../src/store/rows/find.ts';
import { readFleet } from '../src/store/rows/fleet/fleet.ts';
import { listNodes } from '../src/store/rows/fleet/node-list.ts';
import { countNeverReady, readNode, readNodes } from '../src/store/rows/nodes.ts';
import { listPools } from '../src/store/rows/pools.ts';
import type { NodeMove } from '../src/store/transitions/node-move.ts';
import { transition } from '../src/store/transitions/node-transition.ts';
import { defaultEnvironment } from '../src/store/transitions/transition-rules.ts';
import { startBenchServer } from './harness/bench-database.ts';
import { type Figure, median, quantile, report, secondsOf } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { fillFleet } from './harness/resting-fleet.ts';

const options = readOptions(import.meta.url, {
  duration: 'about two minutes; with --quick one',
  options: common,
});
const { quick, rounds } = options;
const sizes = quick ? [10_000, 100_000] : [10_000, 100_000, 1_000_000];
const samples = 8 * rounds;
const targetMs = 100;
/**
 * From the smallest to the largest fleet. A deeper index and a colder cache cost something; a scan
 * would grow with the number of nodes.
 */
const maxGrowth = 4;
/** Growth of faster reads is ignored, because it is mostly timer noise. */
const negligibleMs = 5;
const beatsAtOnce = 1_600;
const beatEveryMs = 200;
const page = { limit: 50, visibility: wholeFleet };
const formatCount = (nodes: number) => (nodes >= 1e6 ? `${nodes / 1e6}M` : `${nodes / 1e3}k`);

interface Store {
  nodes: number;
  db: Database;
  /** A sample of ready nodes. */
  sampleIds: string[];
}

type Read = (store: Store) => Promise<unknown>;
const at = () => now(systemClock);
const pickId = ({ sampleIds }: Store) => sampleIds[Math.floor(Math.random() * sampleIds.length)] ?? '';
/** A name from the middle of the fleet, far from either end of a scan. */
const middleName = ({ nodes }: Store) => `machine-${String(Math.floor(nodes / 2)).padStart(7, '0')}`;

const reads: Record<string, Read> = {
  'fifty nodes by primary key': ({ db, sampleIds }) => readNodes(db, sampleIds.slice(0, 50), wholeFleet),
  'one node': (store) => readNode(store.db, pickId(store), wholeFleet),
  'nodes, newest': ({ db }) => listNodes(db, page),
  'nodes, a page in the middle': (store) => listNodes(store.db, { ...page, after: pickId(store) }),
  'nodes, oldest': ({ db }) => listNodes(db, { ...page, sort: 'oldest' }),
  'nodes of a pool': ({ db }) => listNodes(db, { ...page, pool: 'pool-7' }),
  'nodes with a status': ({ db }) => listNodes(db, { ...page, status: 'provisioning' }),
  'nodes with a status that no node has': ({ db }) => listNodes(db, { ...page, status: 'failed' }),
  'nodes of a pool with a status': ({ db }) => listNodes(db, { ...page, pool: 'pool-7', status: 'ready' }),
  'nodes with a held verdict': ({ db }) => listNodes(db, { ...page, held: true }),
  'nodes of a tenant': ({ db }) => listNodes(db, { ...page, visibility: tenantOnly('tenant-7') }),
  'node search for a full name': (store) => listNodes(store.db, { ...page, q: middleName(store) }),
  'node search for a word in many names': ({ db }) => listNodes(db, { ...page, q: 'machine' }),
  'node search for a word in no name': ({ db }) => listNodes(db, { ...page, q: 'nowhere' }),
  'allocations, newest': ({ db }) => listAllocations(db, page, at()),
  'allocations of a pool': ({ db }) => listAllocations(db, { ...page, pool: 'pool-7' }, at()),
  'allocations of a tenant': ({ db }) => listAllocations(db, { ...page, visibility: tenantOnly('tenant-7') }, at()),
  'allocations with a status that none has': ({ db }) => listAllocations(db, { ...page, status: 'failed' }, at()),
  'allocations with a label that none has': ({ db }) => listAllocations(db, { ...page, label: 'team=none' }, at()),
  'operations, newest': ({ db }) => listOperations(db, page, at()),
  'evidence that explains a node': async (store) => {
    const node = await readNode(store.db, pickId(store), wholeFleet);
    return node && readCitedEvidence(store.db, node, wholeFleet, null);
  },
  'lookup by name': (store) => resolveId(store.db, middleName(store), wholeFleet),
  'lookup of an unknown name': ({ db }) => resolveId(db, 'nowhere', wholeFleet),
  'overview: all counts': async ({ db }) => {
    await countByStatus(db);
    await countHeld(db);
    await countNeverReady(db);
  },
  'fleet by pool, zone and status': ({ db }) => countFleet(db),
  'pools with their counts of live and free nodes': ({ db }) => listPools(db),
  'ages of fenced nodes and failed releases': ({ db }) => readFencedAges(db),
  'fleet page of 2,000 nodes': ({ db }) => readFleet(db, { after: undefined, limit: 2_000, visibility: wholeFleet }),
};

/**
 * Writes heartbeats of random parts of the fleet, at most eight thousand per second. Returns a
 * function that stops this, and returns how many were written per second.
 */
function startBeats(store: Store): () => Promise<number> {
  const startedMs = systemClock.monotonicMs();
  let isStopped = false;
  let written = 0;
  const running = (async () => {
    for (let turn = 1; !isStopped; turn++) {
      const rows = await store.db.query(
        `update heartbeats set last_seen_at = now()
         where node_instance_id in (
           select node_instance_id from nodes where node_id > $1 order by node_id limit $2)
         returning 1`,
        [pickId(store), beatsAtOnce],
      );
      written += rows.length;
      const dueMs = startedMs + turn * beatEveryMs - systemClock.monotonicMs();
      if (dueMs > 0) await pause(systemClock, dueMs);
    }
  })();
  return async () => {
    isStopped = true;
    await running;
    return (written * 1000) / (systemClock.monotonicMs() - startedMs);
  };
}

const say = (message: string) => process.stderr.write(`${message}\n`);
const figures: Figure[] = [];
const failures: string[] = [];

/** Makes nodes degraded and ready again, with and without the triggers that maintain the counts. */
async function measureCounting({ db, sampleIds }: Store): Promise<void> {
  const durationsMs = { counted: [] as number[], uncounted: [] as number[] };
  const move = (to: 'ready' | 'degraded', ids: string[]) =>
    db.transaction((tx) =>
      transition(
        tx,
        ids.map(
          (id): NodeMove => ({
            node_id: id as NodeId,
            to,
            by: to === 'ready' ? 'heartbeat-returned' : 'degraded',
            reason: 'benchmark',
          }),
        ),
        at(),
        defaultEnvironment,
      ),
    );
  for (const nodes of [1, 500]) {
    for (let turn = -2; turn < samples; turn++)
      for (const name of ['counted', 'uncounted'] as const) {
        const action = name === 'counted' ? 'enable' : 'disable';
        for (const trigger of ['nodes_counted', 'allocations_counted'])
          await db.query(`alter table ${trigger.split('_')[0]} ${action} trigger ${trigger}`);
        const ids = sampleIds.slice(0, nodes);
        const seconds = await secondsOf(async () => {
          await move('degraded', ids);
          await move('ready', ids);
        });
        if (turn >= 0) durationsMs[name].push((seconds * 1000) / 2);
      }
    figures.push(
      { what: `transition of ${nodes} nodes, with counting triggers`, value: median(durationsMs.counted), unit: 'ms' },
      {
        what: '… with / without counting triggers',
        value: median(durationsMs.counted) / median(durationsMs.uncounted),
        unit: '×',
      },
    );
    durationsMs.counted.length = 0;
    durationsMs.uncounted.length = 0;
  }
  for (const trigger of ['nodes_counted', 'allocations_counted'])
    await db.query(`alter table ${trigger.split('_')[0]} enable trigger ${trigger}`);
  figures.push({
    what: 'merging the count rows of these transitions',
    value: (await secondsOf(() => foldCounts(db))) * 1000,
    unit: 'ms',
  });
}

const loadBefore = loadavg();
const server = await startBenchServer(quick ? 2 : 8);
try {
  const stores: Store[] = [];
  for (const nodes of sizes) {
    const db = await server.database(`lists_${nodes}`);
    say(`filling a store with ${formatCount(nodes)} nodes`);
    await fillFleet(db, { idle: nodes - nodes / 100, inFlight: nodes / 100 });
    const rows = await db.query<{ node_id: string }>(
      `select node_id from nodes tablesample system (5) where status = 'ready' limit 600`,
    );
    stores.push({ nodes, db, sampleIds: rows.map((row) => row.node_id) });
  }
  const medians = new Map<string, number[]>();
  for (const store of stores) {
    say(`reading from ${formatCount(store.nodes)} nodes`);
    const stopBeats = startBeats(store);
    for (const [what, read] of Object.entries(reads)) {
      const durationsMs: number[] = [];
      for (let turn = -3; turn < samples; turn++) {
        const ms = (await secondsOf(() => read(store))) * 1000;
        if (turn >= 0) durationsMs.push(ms);
      }
      medians.set(what, [...(medians.get(what) ?? []), median(durationsMs)]);
      if (store !== stores.at(-1)) continue;
      figures.push(
        { what: `${what}, ${formatCount(store.nodes)} nodes, p50`, value: median(durationsMs), unit: 'ms' },
        { what: '… p99', value: quantile(durationsMs, 0.99), unit: 'ms', target: targetMs },
      );
      if (quantile(durationsMs, 0.99) > targetMs)
        failures.push(`${what}: p99 is ${quantile(durationsMs, 0.99).toFixed(0)} ms, target < ${targetMs} ms`);
    }
    say(`${(await stopBeats()).toFixed(0)} heartbeats per second were written meanwhile`);
  }
  const [baseline = []] = medians.values();
  for (const [what, mediansMs] of medians) {
    const growth = (mediansMs.at(-1) ?? Number.NaN) / (mediansMs[0] ?? Number.NaN);
    figures.push({
      what: `${what}: ${formatCount(sizes.at(-1) ?? 0)} / ${formatCount(sizes[0] ?? 0)}`,
      value: growth,
      unit: '×',
    });
    figures.push({
      what: '… / fifty nodes by primary key (baseline)',
      value: (mediansMs.at(-1) ?? 0) / (baseline.at(-1) ?? 1),
      unit: '×',
    });
    if (growth > maxGrowth && (mediansMs.at(-1) ?? 0) > negligibleMs)
      failures.push(
        `${what} takes ${growth.toFixed(1)} times as long with ${formatCount(sizes.at(-1) ?? 0)} nodes as with ${formatCount(sizes[0] ?? 0)}`,
      );
  }
  const [, middle = stores[0]] = stores;
  if (middle) {
    say('measuring transitions with and without counting triggers');
    await measureCounting(middle);
  }
  const [last] = stores.slice(-1);
  if (last) {
    const seconds = await secondsOf(() => verifyCounts(last.db));
    figures.push({ what: `verifying the counts of ${formatCount(last.nodes)} nodes`, value: seconds, unit: 's' });
  }
} finally {
  await server.stop();
}
report(options, 'lists', figures, loadBefore, { medianOf: String(samples), jsonToo: true });
for (const failure of failures) say(`failed: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
