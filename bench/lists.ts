/**
 * The cost of each page, count and search in fleets of ten thousand, a hundred thousand and a
 * million, during heartbeats, and the cost of counting for writers. The same page by primary key is
 * the baseline of the run. Exits with 1 if one of them grows too much with the fleet.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import type { NodeId } from '../src/base/ids.ts';
import { tenantOnly, wholeFleet } from '../src/lifecycle/visibility.ts';
import { evidenceFor } from '../src/store/evidence/explanation-evidence.ts';
import { listOperations } from '../src/store/operations/operations.ts';
import type { Database } from '../src/store/pg/database.ts';
import { listAllocations } from '../src/store/rows/allocations.ts';
import { countByStatus, countFleet, countHeld, foldCounts, verifyCounts } from '../src/store/rows/counts.ts';
import { fencedAges } from '../src/store/rows/fenced-ages.ts';
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
  takes: 'about two minutes; with --quick one',
  options: common,
});
const { quick, rounds } = options;
const sizes = quick ? [10_000, 100_000] : [10_000, 100_000, 1_000_000];
const samples = 8 * rounds;
const targetMs = 100;
/** A deeper index and a colder cache cost something; a scan would grow with the number of nodes. */
const maxGrowth = 4;
/** Smaller times do not matter and are mostly timer noise. */
const unnoticedMs = 5;
const beatsAtOnce = 1_600;
const beatEveryMs = 200;
const page = { limit: 50, visibility: wholeFleet };
const counted = (nodes: number) => (nodes >= 1e6 ? `${nodes / 1e6}M` : `${nodes / 1e3}k`);

interface Store {
  nodes: number;
  db: Database;
  some: string[];
}

type Read = (store: Store) => Promise<unknown>;
const at = () => now(systemClock);
const any = ({ some }: Store) => some[Math.floor(Math.random() * some.length)] ?? '';
/** A name from the middle of the fleet, far from either end of a scan. */
const middleName = ({ nodes }: Store) => `machine-${String(Math.floor(nodes / 2)).padStart(7, '0')}`;

const reads: Record<string, Read> = {
  'fifty nodes by primary key': ({ db, some }) => readNodes(db, some.slice(0, 50), wholeFleet),
  'one node': (store) => readNode(store.db, any(store), wholeFleet),
  'nodes, newest': ({ db }) => listNodes(db, page),
  'nodes, a page in the middle': (store) => listNodes(store.db, { ...page, after: any(store) }),
  'nodes, oldest': ({ db }) => listNodes(db, { ...page, sort: 'oldest' }),
  'nodes of a pool': ({ db }) => listNodes(db, { ...page, pool: 'pool-7' }),
  'nodes of a status': ({ db }) => listNodes(db, { ...page, status: 'provisioning' }),
  'nodes of a status that none has': ({ db }) => listNodes(db, { ...page, status: 'failed' }),
  'nodes of a pool and a status': ({ db }) => listNodes(db, { ...page, pool: 'pool-7', status: 'ready' }),
  'nodes that are held': ({ db }) => listNodes(db, { ...page, held: true }),
  'nodes of a tenant': ({ db }) => listNodes(db, { ...page, visibility: tenantOnly('tenant-7') }),
  'nodes by a word that is a name': (store) => listNodes(store.db, { ...page, q: middleName(store) }),
  'nodes by a word that many contain': ({ db }) => listNodes(db, { ...page, q: 'machine' }),
  'nodes by a word that none contains': ({ db }) => listNodes(db, { ...page, q: 'nowhere' }),
  'allocations, newest': ({ db }) => listAllocations(db, page, at()),
  'allocations of a pool': ({ db }) => listAllocations(db, { ...page, pool: 'pool-7' }, at()),
  'allocations of a tenant': ({ db }) => listAllocations(db, { ...page, visibility: tenantOnly('tenant-7') }, at()),
  'allocations of a status that none has': ({ db }) => listAllocations(db, { ...page, status: 'failed' }, at()),
  'allocations with a label that none has': ({ db }) => listAllocations(db, { ...page, label: 'team=none' }, at()),
  'operations, newest': ({ db }) => listOperations(db, page, at()),
  'the evidence that explains a node': async (store) => {
    const node = await readNode(store.db, any(store), wholeFleet);
    return node && evidenceFor(store.db, node, wholeFleet, null);
  },
  'lookup by name': (store) => resolveId(store.db, middleName(store), wholeFleet),
  'lookup of an unknown name': ({ db }) => resolveId(db, 'nowhere', wholeFleet),
  'overview: all counts': async ({ db }) => {
    await countByStatus(db);
    await countHeld(db);
    await countNeverReady(db);
  },
  'fleet by pool, zone and status': ({ db }) => countFleet(db),
  'pools, with what is live and free': ({ db }) => listPools(db),
  'ages of what is fenced': ({ db }) => fencedAges(db),
  'a page of the fleet, of 2,000': ({ db }) =>
    readFleet(db, { after: undefined, limit: 2_000, visibility: wholeFleet }),
};

/** Like the buffer of a replica: eight thousand per second. */
function startBeats({ db, nodes }: Store) {
  let stopped = false;
  let cancel = () => {};
  const beat = async () => {
    const from = Math.floor(Math.random() * Math.max(1, nodes - beatsAtOnce));
    await db.query(
      `update heartbeats set last_seen_at = now() where node_instance_id in (
         select node_instance_id from nodes where node_id > (select node_id from nodes order by node_id offset $1 limit 1) order by node_id limit $2)`,
      [Math.min(from, 2_000), beatsAtOnce],
    );
    if (!stopped) cancel = systemClock.after(beatEveryMs, () => void beat());
  };
  const first = beat();
  return async () => {
    stopped = true;
    cancel();
    await first;
    await pause(systemClock, 2 * beatEveryMs);
  };
}

const say = (what: string) => process.stderr.write(`${what}\n`);
const figures: Figure[] = [];
const broken: string[] = [];

/** Many nodes become degraded and ready again, with and without the counting triggers. */
async function costOfCounting({ db, some }: Store): Promise<void> {
  const spent = { counted: [] as number[], uncounted: [] as number[] };
  const move = (to: 'ready' | 'degraded', ids: string[]) =>
    db.transaction((tx) =>
      transition(
        tx,
        ids.map(
          (id): NodeMove => ({
            node_id: id as NodeId,
            to,
            by: to === 'ready' ? 'heartbeat-returned' : 'degraded',
            reason: 'a bench',
          }),
        ),
        at(),
        defaultEnvironment,
      ),
    );
  for (const many of [1, 500]) {
    for (let turn = -2; turn < samples; turn++)
      for (const name of ['counted', 'uncounted'] as const) {
        const which = name === 'counted' ? 'enable' : 'disable';
        for (const trigger of ['nodes_counted', 'allocations_counted'])
          await db.query(`alter table ${trigger.split('_')[0]} ${which} trigger ${trigger}`);
        const ids = some.slice(0, many);
        const seconds = await secondsOf(async () => {
          await move('degraded', ids);
          await move('ready', ids);
        });
        if (turn >= 0) spent[name].push((seconds * 1000) / 2);
      }
    figures.push(
      { what: `a transition, ${many} at once, counted`, value: median(spent.counted), unit: 'ms' },
      { what: '… counted / not counted', value: median(spent.counted) / median(spent.uncounted), unit: '×' },
    );
    spent.counted.length = 0;
    spent.uncounted.length = 0;
  }
  for (const trigger of ['nodes_counted', 'allocations_counted'])
    await db.query(`alter table ${trigger.split('_')[0]} enable trigger ${trigger}`);
  figures.push({ what: 'folding what that left', value: (await secondsOf(() => foldCounts(db))) * 1000, unit: 'ms' });
}

const loadBefore = loadavg();
const server = await startBenchServer(quick ? 2 : 8);
try {
  const stores: Store[] = [];
  for (const nodes of sizes) {
    const db = await server.database(`lists_${nodes}`);
    say(`filling ${counted(nodes)} nodes`);
    await fillFleet(db, { idle: nodes - nodes / 100, inFlight: nodes / 100 });
    const rows = await db.query<{ node_id: string }>(
      `select node_id from nodes tablesample system (5) where status = 'ready' limit 600`,
    );
    stores.push({ nodes, db, some: rows.map((row) => row.node_id) });
  }
  const medians = new Map<string, number[]>();
  for (const store of stores) {
    say(`reading among ${counted(store.nodes)}`);
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
        { what: `${what}, ${counted(store.nodes)}`, value: median(durationsMs), unit: 'ms' },
        { what: '… 99 of 100', value: quantile(durationsMs, 0.99), unit: 'ms', target: targetMs },
      );
      if (quantile(durationsMs, 0.99) > targetMs)
        broken.push(`${what}: 1 in 100 takes ${quantile(durationsMs, 0.99).toFixed(0)} ms`);
    }
    await stopBeats();
  }
  const [base = []] = medians.values();
  for (const [what, mediansMs] of medians) {
    const growth = (mediansMs.at(-1) ?? Number.NaN) / (mediansMs[0] ?? Number.NaN);
    figures.push({ what: `${what}: ${sizes.map(counted).toReversed().join(' / ')}`, value: growth, unit: '×' });
    figures.push({
      what: '… / the page by primary key',
      value: (mediansMs.at(-1) ?? 0) / (base.at(-1) ?? 1),
      unit: '×',
    });
    if (growth > maxGrowth && (mediansMs.at(-1) ?? 0) > unnoticedMs)
      broken.push(
        `${what} gets ${growth.toFixed(1)}× as dear from ${counted(sizes[0] ?? 0)} to ${counted(sizes.at(-1) ?? 0)}`,
      );
  }
  const [, middle = stores[0]] = stores;
  if (middle) {
    say('changing, with counting and without');
    await costOfCounting(middle);
  }
  const [last] = stores.slice(-1);
  if (last) {
    const seconds = await secondsOf(() => verifyCounts(last.db));
    figures.push({ what: `holding the counts against all ${counted(last.nodes)} nodes`, value: seconds, unit: 's' });
  }
} finally {
  await server.stop();
}
report(options, 'lists', figures, loadBefore, { medianOf: String(samples), jsonToo: true });
for (const what of broken) say(`not as it should be: ${what}`);
process.exitCode = broken.length > 0 ? 1 : 0;
