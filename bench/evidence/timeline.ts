/**
 * Measures the cost of a timeline page, whether it depends on the amount of evidence, and the cost
 * of partitions for writers and followers. Exits with 1 if a page gets slower with the size of the
 * store.
 */
import { loadavg } from 'node:os';
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import { wholeFleet } from '../../src/lifecycle/visibility.ts';
import {
  type Cursor,
  headCursor,
  parseCursor,
  readAfter,
  readTimeline,
  recordEvidence,
} from '../../src/store/evidence/evidence.ts';
import { evidencePieces } from '../../src/store/history/retention.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { type Figure, median, quantile, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { sizeMb } from '../harness/resting-fleet.ts';
import { correlationOf, fillEvidence, nodeOf, operationOf, talkative } from './rows.ts';

const options = readOptions(import.meta.url, {
  takes: 'some minutes; with --quick about one',
  options: common,
});
const { quick, rounds } = options;
const sizes = quick ? [50_000, 500_000] : [500_000, 5_000_000];
const samples = 20 * rounds;
const targetMs = 50;
const maxGrowth = 2;
const page = { visibility: wholeFleet, limit: 100 };
const written = 500;
const counted = (rows: number) => (rows >= 1e6 ? `${rows / 1e6}M` : `${rows / 1e3}k`);

interface Store {
  rows: number;
  nodes: number;
  db: Database;
  head: Cursor;
}

/** The query with which followers read new evidence. */
const lately = () => ({
  since: secondsLater(now(systemClock), -30 * 24 * 3600),
  until: secondsLater(now(systemClock), 24 * 3600),
});

type Question = (store: Store) => Promise<unknown>;

const any = (store: Store) => nodeOf(1 + Math.floor(Math.random() * (store.nodes - 1)));

const questions: Record<string, Question> = {
  'first page of a node': (store) => readTimeline(store.db, { node_id: any(store), ...page }),
  'first page of a node with a long story': ({ db }) => readTimeline(db, { node_id: talkative, ...page }),
  'its first and its second page': async ({ db }) => {
    const first = await readTimeline(db, { node_id: talkative, ...page });
    return readTimeline(db, { node_id: talkative, ...page, cursor: parseCursor(first.next_cursor ?? '') });
  },
  'by correlation_id': ({ db, rows }) =>
    readTimeline(db, { correlation_id: correlationOf(Math.floor((Math.random() * rows) / 10)), ...page }),
  'by workflow_id, oldest first': ({ db, rows }) =>
    readTimeline(db, { workflow_id: operationOf(Math.floor((Math.random() * rows) / 10)), order: 'oldest', ...page }),
  'the tail: nothing new': async (store) => readAfter(store.db, store.head, 500, lately()),
  'the stream: nothing new since a cursor': async (store) => readAfter(store.db, store.head, 500),
  [`telling ${written} facts`]: ({ db }) =>
    recordEvidence(
      db,
      Array.from({ length: written }, (_, i) => ({
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
const broken: string[] = [];
const say = (what: string) => process.stderr.write(`${what}\n`);

const loadBefore = loadavg();
const server = await startBenchServer(quick ? 3 : 15);
try {
  const stores: Store[] = [];
  for (const rows of sizes) {
    const db = await server.database(`evidence_${rows}`);
    say(`filling ${counted(rows)} facts`);
    const seconds = await secondsOf(async () => {
      const filled = await fillEvidence(db, systemClock, rows);
      stores.push({ rows, db, ...filled, head: await headCursor(db) });
    });
    const pieces = (await evidencePieces(db)).length;
    say(`filled in ${seconds.toFixed(0)} s, ${pieces} pieces`);
    figures.push({ what: `database of ${counted(rows)} facts`, value: await sizeMb(db), unit: 'MB' });
  }
  // The same without partitions and rows: the minimal cost of writing.
  const bare = await server.database('evidence_empty');
  const empty: Store = { rows: 0, nodes: 0, db: bare, head: await headCursor(bare) };
  for (const [what, ask] of Object.entries(questions)) {
    say(`measuring ${what}`);
    const spent = new Map([...stores, empty].map((store) => [store, [] as number[]]));
    for (let turn = -3; turn < samples; turn++)
      for (const [store, taken] of spent) {
        const ms = (await secondsOf(() => ask(store))) * 1000;
        if (turn >= 0) taken.push(ms);
      }
    const reading = !what.startsWith('telling');
    for (const { rows, ...store } of stores) {
      const taken = spent.get([...spent.keys()].find((each) => each.db === store.db) ?? empty) ?? [];
      const label = `${what}, ${counted(rows)}`;
      figures.push({
        what: label,
        value: median(taken),
        unit: 'ms',
        samples: taken,
        ...(reading && { target: targetMs }),
      });
      figures.push({ what: '… 95 of 100 are below', value: quantile(taken, 0.95), unit: 'ms' });
    }
    const [few = [], many = [], none = []] = [...spent.values()];
    const growth = median(many) / median(few);
    figures.push({ what: `${what}: ${sizes.map(counted).toReversed().join(' / ')}`, value: growth, unit: '×' });
    figures.push({
      what: `${what}: in pieces / in an empty store without`,
      value: median(many) / median(none),
      unit: '×',
    });
    if (reading && growth > maxGrowth) broken.push(`${what} grows ${growth.toFixed(2)}× with ten times the facts`);
  }
} finally {
  await server.stop();
}
report(options, 'timeline', figures, loadBefore, { medianOf: String(samples), jsonToo: true });
for (const what of broken) process.stderr.write(`not as it should be: ${what}\n`);
process.exitCode = broken.length > 0 ? 1 : 0;
