/**
 * Measures the time to read a timeline page from a small and from a large store, and how much the
 * partitions of the evidence slow down writes, the tail and streams. The baseline for the
 * partitions is an empty store without them. Exits with 1 if a read takes more than twice as long
 * in the large store.
 */
import { loadavg } from 'node:os';
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import { wholeFleet } from '../../src/lifecycle/visibility.ts';
import { type Cursor, parseCursor, readHeadCursor } from '../../src/store/evidence/commit-order.ts';
import { readAfter, readTimeline, recordEvidence } from '../../src/store/evidence/evidence.ts';
import { listPartitions } from '../../src/store/history/retention.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { type Figure, median, quantile, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { databaseSizeMb } from '../harness/resting-fleet.ts';
import { busyNode, correlationOf, fillEvidence, nodeOf, operationOf } from './rows.ts';

const options = readOptions(import.meta.url, {
  duration: 'several minutes; with --quick about one',
  options: common,
});
const { quick, rounds } = options;
const sizes = quick ? [50_000, 500_000] : [500_000, 5_000_000];
const samples = 20 * rounds;
const targetMs = 50;
const maxGrowth = 2;
const page = { visibility: wholeFleet, limit: 100 };
const factsPerWrite = 500;
const formatCount = (rows: number) => (rows >= 1e6 ? `${rows / 1e6}M` : `${rows / 1e3}k`);

interface Store {
  rows: number;
  nodes: number;
  db: Database;
  head: Cursor;
}

/** The time range in which the tail looks for new evidence. */
const tailRange = () => ({
  since: secondsLater(now(systemClock), -30 * 24 * 3600),
  until: secondsLater(now(systemClock), 24 * 3600),
});

type Query = (store: Store) => Promise<unknown>;

const pickNode = (store: Store) => nodeOf(1 + Math.floor(Math.random() * (store.nodes - 1)));

const writeLabel = `write of ${factsPerWrite} facts`;

const queries: Record<string, Query> = {
  'first page of a node': (store) => readTimeline(store.db, { node_id: pickNode(store), ...page }),
  'first page of a node with many facts': ({ db }) => readTimeline(db, { node_id: busyNode, ...page }),
  'first and second page of a node with many facts': async ({ db }) => {
    const first = await readTimeline(db, { node_id: busyNode, ...page });
    return readTimeline(db, { node_id: busyNode, ...page, cursor: parseCursor(first.next_cursor ?? '') });
  },
  'by correlation_id': ({ db, rows }) =>
    readTimeline(db, { correlation_id: correlationOf(Math.floor((Math.random() * rows) / 10)), ...page }),
  'by workflow_id, oldest first': ({ db, rows }) =>
    readTimeline(db, { workflow_id: operationOf(Math.floor((Math.random() * rows) / 10)), order: 'oldest', ...page }),
  'tail without new facts': async (store) => readAfter(store.db, store.head, 500, tailRange()),
  'stream without facts after its cursor': async (store) => readAfter(store.db, store.head, 500),
  [writeLabel]: ({ db }) =>
    recordEvidence(
      db,
      Array.from({ length: factsPerWrite }, (_, i) => ({
        at: now(systemClock),
        layer: 'rule' as const,
        kind: 'node.explained',
        summary: 'starting → ready: it sends heartbeats and its start-up time is over',
        data: { from: 'starting', to: 'ready', waited_seconds: 12 },
        node_id: nodeOf(i) as never,
      })),
    ),
};

const figures: Figure[] = [];
const failures: string[] = [];
const say = (message: string) => process.stderr.write(`${message}\n`);

const loadBefore = loadavg();
const server = await startBenchServer(quick ? 3 : 15);
try {
  const stores: Store[] = [];
  for (const rows of sizes) {
    const db = await server.database(`evidence_${rows}`);
    say(`filling a store with ${formatCount(rows)} facts`);
    const seconds = await secondsOf(async () => {
      const filled = await fillEvidence(db, systemClock, rows);
      stores.push({ rows, db, ...filled, head: await readHeadCursor(db) });
    });
    const partitions = (await listPartitions(db)).length;
    say(`filled in ${seconds.toFixed(0)} s, ${partitions} partitions`);
    figures.push({ what: `database of ${formatCount(rows)} facts`, value: await databaseSizeMb(db), unit: 'MB' });
  }
  // The baseline: a store without facts and without the partitions of three months.
  const emptyDb = await server.database('evidence_empty');
  const empty: Store = { rows: 0, nodes: 0, db: emptyDb, head: await readHeadCursor(emptyDb) };
  for (const [what, query] of Object.entries(queries)) {
    say(`measuring ${what}`);
    const durations = new Map([...stores, empty].map((store) => [store, [] as number[]]));
    for (let turn = -3; turn < samples; turn++)
      for (const [store, durationsMs] of durations) {
        const ms = (await secondsOf(() => query(store))) * 1000;
        if (turn >= 0) durationsMs.push(ms);
      }
    const isRead = what !== writeLabel;
    for (const store of stores) {
      const { rows } = store;
      const durationsMs = durations.get(store) ?? [];
      const label = `${what}, ${formatCount(rows)} facts, p50`;
      figures.push({
        what: label,
        value: median(durationsMs),
        unit: 'ms',
        samples: durationsMs,
        ...(isRead && { target: targetMs }),
      });
      figures.push({ what: '… p95', value: quantile(durationsMs, 0.95), unit: 'ms' });
    }
    const [few = [], many = [], none = []] = [...durations.values()];
    const growth = median(many) / median(few);
    figures.push({ what: `${what}: ${sizes.map(formatCount).toReversed().join(' / ')}`, value: growth, unit: '×' });
    figures.push({
      what: `${what}: with partitions / empty store without (baseline)`,
      value: median(many) / median(none),
      unit: '×',
    });
    if (isRead && growth > maxGrowth)
      failures.push(`${what} takes ${growth.toFixed(2)} times as long with ten times the facts`);
  }
} finally {
  await server.stop();
}
report(options, 'timeline', figures, loadBefore, { medianOf: String(samples), jsonToo: true });
for (const failure of failures) say(`failed: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
