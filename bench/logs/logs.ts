/**
 * Log lines per second that reach the store: from one agent with its spool, and from a hundred
 * nodes in one process, compared with the bare INSERT of the same lines and batches, in turn. Also
 * whether it slows down as the store fills, and the memory of agent and server while the store is
 * frozen. Exits with 1 if a ratio or growth is out of bounds; lines per second are only printed.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import type { ShippedLine } from '../../src/contract/agent/agent.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { sizeMb } from '../harness/resting-fleet.ts';
import { startWithNpm } from '../harness/server-process.ts';
import { ndjson, registerWriters, shipAsAgent, shipAsMany, takeLines, type WritingNode } from './nodes.ts';
import { memoryUnderPressure } from './pressure.ts';

const options = readOptions(import.meta.url, {
  takes: 'some minutes; with --quick about two',
  options: common,
});
const { quick, rounds } = options;
const oneLines = quick ? 20_000 : 100_000;
const manyNodes = 100;
const manyLines = quick ? 100_000 : 300_000;
const batchLines = 1_000;
const more = 10;
const bound = 0.5;
const targets = { one: 10_000, many: 50_000 };
const say = (what: string) => process.stderr.write(`${what}\n`);

const chunked = (lines: ShippedLine[]) =>
  Array.from({ length: Math.ceil(lines.length / batchLines) }, (_, i) =>
    lines.slice(i * batchLines, (i + 1) * batchLines),
  );

/** One row per line by number: the minimum that stores every line once. */
const bareTable = `create table bare_lines (node_instance_id text not null, seq bigint not null, at timestamptz not null,
  stream text not null, line text not null, primary key (node_instance_id, seq))`;
const bareInsert = `insert into bare_lines select $1, seq, at, stream, line
  from jsonb_to_recordset($2::jsonb) as shipped(seq bigint, at timestamptz, stream text, line text)`;

const insertInTurn = async (db: Database, { node_instance_id }: WritingNode, batches: ShippedLine[][]) => {
  for (const batch of batches) await db.query(bareInsert, [node_instance_id, JSON.stringify(batch)]);
};

const figures: Figure[] = [];
const broken: string[] = [];

function compare(what: string, bare: number[], shipped: number[], at_least: number): void {
  const ratios = shipped.map((rate, place) => rate / (bare[place] ?? Number.NaN));
  figures.push(
    { what: `${what}: bare INSERT`, value: median(bare), unit: 'lines/s', samples: bare },
    { what: `${what}: shipped`, value: median(shipped), unit: 'lines/s', samples: shipped, at_least },
    { what: `${what}: shipped / bare INSERT`, value: median(ratios), unit: '×', samples: ratios, at_least: bound },
  );
  if (median(ratios) < bound) broken.push(`${what}: ${median(ratios).toFixed(2)}× of the bare INSERT's rate`);
}

const loadBefore = loadavg();
const postgres = await startBenchServer(2);
const directory = await freshDirectory();
try {
  const db = await postgres.database('logs');
  await db.query(bareTable);
  const raw = openDatabase({ url: db.url });
  const server = await startWithNpm(join(directory, 'data'), ['--database-url', db.url]);
  try {
    const client = await server.client();
    const many = await registerWriters(client, server.url, manyNodes);
    const bare = { one: [] as number[], many: [] as number[] };
    const shipped = { one: [] as number[], many: [] as number[], more: [] as number[] };
    let ones = 0;
    const one = async (lines: number) => {
      const [writer] = await registerWriters(client, server.url, 1, `one-${ones++}`);
      if (!writer) throw new Error('nobody registered');
      return { writer, portions: chunked(takeLines(writer, lines)) };
    };
    const shipOne = async (writer: WritingNode, portions: ShippedLine[][]) => {
      const spool = await freshDirectory();
      const seconds = await secondsOf(() => shipAsAgent(server.url, writer, portions, spool));
      await removeDirectory(spool);
      return seconds;
    };
    // The first round warms connections and compiled code, and is not counted.
    for (let round = 0; round <= rounds; round++) {
      say(`round ${round} of ${rounds}`);
      const { writer, portions } = await one(oneLines);
      const bareOne = await secondsOf(() => insertInTurn(raw, writer, portions));
      const shippedOne = await shipOne(writer, portions);
      const long = await one(more * oneLines);
      const shippedMore = await shipOne(long.writer, long.portions);
      const lines = new Map(many.map((each) => [each, chunked(takeLines(each, manyLines / manyNodes))]));
      const written = new Map([...lines].map(([each, batches]) => [each, batches.map(ndjson)]));
      const bareMany = await secondsOf(() =>
        Promise.all([...lines].map(([each, batches]) => insertInTurn(raw, each, batches))),
      );
      const shippedMany = await secondsOf(() => shipAsMany(server.url, written));
      if (round === 0) continue;
      bare.one.push(oneLines / bareOne);
      shipped.one.push(oneLines / shippedOne);
      shipped.more.push((more * oneLines) / shippedMore);
      bare.many.push(manyLines / bareMany);
      shipped.many.push(manyLines / shippedMany);
    }
    compare('one node', bare.one, shipped.one, targets.one);
    compare(`${manyNodes} nodes`, bare.many, shipped.many, targets.many);
    const growths = shipped.more.map((rate, place) => rate / (shipped.one[place] ?? Number.NaN));
    const growth = median(growths);
    const what = `one node: rate with ${more} times the lines / with ${oneLines}`;
    figures.push({ what, value: growth, unit: '×', samples: growths, at_least: bound });
    figures.push({ what: 'memory of the server at the end', value: server.residentMb(), unit: 'MB' });
    if (growth < bound) broken.push(`${more} times the lines come at ${growth.toFixed(2)}× of the rate`);
    say('a store that stands still');
    const pressed = await memoryUnderPressure({ client, server, db }, join(directory, 'flooding'), quick ? 10 : 30);
    figures.push(...pressed);
    for (const { what, value, target } of pressed)
      if (target !== undefined && value > target) broken.push(`${what}: ${value.toFixed(0)} MB`);
    await db.query('drop table bare_lines');
    figures.push({ what: 'database with all shipped lines', value: await sizeMb(db), unit: 'MB' });
  } finally {
    await server.stop();
    await raw.close();
  }
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
report(options, 'logs', figures, loadBefore, { jsonToo: true });
for (const what of broken) process.stderr.write(`not as it should be: ${what}\n`);
process.exitCode = broken.length > 0 ? 1 : 0;
