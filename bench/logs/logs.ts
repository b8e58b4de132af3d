/**
 * Measures how many log lines per second reach the store, from one agent with its spool and from a
 * hundred nodes in one process. The baseline is the bare INSERT of the same lines in the same
 * batches. Also measures whether the rate falls with ten times the lines, and the memory of agent
 * and server while the store accepts no lines. Exits with 1 if a ratio or the memory is out of
 * bounds; lines per second are only printed.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import type { ShippedLine } from '../../src/contract/agent/agent.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { databaseSizeMb } from '../harness/resting-fleet.ts';
import { startWithNpm } from '../harness/server-process.ts';
import { ndjson, registerWriters, shipAsAgent, shipAsMany, takeLines, type WritingNode } from './nodes.ts';
import { memoryUnderPressure } from './pressure.ts';

const options = readOptions(import.meta.url, {
  duration: 'several minutes; with --quick about two',
  options: common,
});
const { quick, rounds } = options;
const oneLines = quick ? 20_000 : 100_000;
const manyNodes = 100;
const manyLines = quick ? 100_000 : 300_000;
const batchLines = 1_000;
const longFactor = 10;
const minRatio = 0.5;
const targets = { one: 10_000, many: 50_000 };
const say = (message: string) => process.stderr.write(`${message}\n`);

const inBatches = (lines: ShippedLine[]) =>
  Array.from({ length: Math.ceil(lines.length / batchLines) }, (_, i) =>
    lines.slice(i * batchLines, (i + 1) * batchLines),
  );

/** The baseline: one row per line, with a key that stores every line only once. */
const bareTable = `create table bare_lines (node_instance_id text not null, seq bigint not null, at timestamptz not null,
  stream text not null, line text not null, primary key (node_instance_id, seq))`;
const bareInsert = `insert into bare_lines select $1, seq, at, stream, line
  from jsonb_to_recordset($2::jsonb) as shipped(seq bigint, at timestamptz, stream text, line text)`;

const insertInTurn = async (db: Database, { node_instance_id }: WritingNode, batches: ShippedLine[][]) => {
  for (const batch of batches) await db.query(bareInsert, [node_instance_id, JSON.stringify(batch)]);
};

const figures: Figure[] = [];
const failures: string[] = [];

function compare(what: string, bare: number[], shipped: number[], at_least: number): void {
  const ratios = shipped.map((rate, place) => rate / (bare[place] ?? Number.NaN));
  figures.push(
    { what: `${what}: bare INSERT (baseline)`, value: median(bare), unit: 'lines/s', samples: bare },
    { what: `${what}: shipped`, value: median(shipped), unit: 'lines/s', samples: shipped, at_least },
    { what: `${what}: shipped / bare INSERT`, value: median(ratios), unit: '×', samples: ratios, at_least: minRatio },
  );
  if (median(ratios) < minRatio)
    failures.push(`${what}: the rate is ${median(ratios).toFixed(2)} × that of the bare INSERT, target ≥ ${minRatio}`);
}

const loadBefore = loadavg();
const postgres = await startBenchServer(2);
const directory = await freshDirectory();
try {
  const db = await postgres.database('logs');
  await db.query(bareTable);
  const bareDb = openDatabase({ url: db.url });
  const server = await startWithNpm(join(directory, 'data'), ['--database-url', db.url]);
  try {
    const client = await server.client();
    const manyWriters = await registerWriters(client, server.url, manyNodes);
    const bare = { one: [] as number[], many: [] as number[] };
    const shipped = { one: [] as number[], many: [] as number[], long: [] as number[] };
    let writerCount = 0;
    const createWriter = async (lines: number) => {
      const [writer] = await registerWriters(client, server.url, 1, `one-${writerCount++}`);
      if (!writer) throw new Error('no node was registered');
      return { writer, portions: inBatches(takeLines(writer, lines)) };
    };
    const shipOne = async (writer: WritingNode, portions: ShippedLine[][]) => {
      const spool = await freshDirectory();
      const seconds = await secondsOf(() => shipAsAgent(server.url, writer, portions, spool));
      await removeDirectory(spool);
      return seconds;
    };
    // The first round warms up connections and compiled code, and is not counted.
    for (let round = 0; round <= rounds; round++) {
      say(`round ${round} of ${rounds}`);
      const { writer, portions } = await createWriter(oneLines);
      const bareOne = await secondsOf(() => insertInTurn(bareDb, writer, portions));
      const shippedOne = await shipOne(writer, portions);
      const long = await createWriter(longFactor * oneLines);
      const shippedLong = await shipOne(long.writer, long.portions);
      const lines = new Map(manyWriters.map((each) => [each, inBatches(takeLines(each, manyLines / manyNodes))]));
      const ndjsonBatches = new Map([...lines].map(([each, batches]) => [each, batches.map(ndjson)]));
      const bareMany = await secondsOf(() =>
        Promise.all([...lines].map(([each, batches]) => insertInTurn(bareDb, each, batches))),
      );
      const shippedMany = await secondsOf(() => shipAsMany(server.url, ndjsonBatches));
      if (round === 0) continue;
      bare.one.push(oneLines / bareOne);
      shipped.one.push(oneLines / shippedOne);
      shipped.long.push((longFactor * oneLines) / shippedLong);
      bare.many.push(manyLines / bareMany);
      shipped.many.push(manyLines / shippedMany);
    }
    compare('one node', bare.one, shipped.one, targets.one);
    compare(`${manyNodes} nodes`, bare.many, shipped.many, targets.many);
    const growths = shipped.long.map((rate, place) => rate / (shipped.one[place] ?? Number.NaN));
    const growth = median(growths);
    const what = `one node: rate with ${longFactor * oneLines} lines / with ${oneLines} lines`;
    figures.push({ what, value: growth, unit: '×', samples: growths, at_least: minRatio });
    figures.push({ what: 'memory of the server at the end', value: server.residentMb(), unit: 'MB' });
    if (growth < minRatio)
      failures.push(`with ${longFactor} times the lines the rate is ${growth.toFixed(2)} ×, target ≥ ${minRatio}`);
    say('measuring memory while the store accepts no lines');
    const memoryFigures = await memoryUnderPressure(
      { client, server, db },
      join(directory, 'flooding'),
      quick ? 10 : 30,
    );
    figures.push(...memoryFigures);
    for (const { what, value, target } of memoryFigures)
      if (target !== undefined && value > target)
        failures.push(`${what}: ${value.toFixed(0)} MB, target < ${target} MB`);
    await db.query('drop table bare_lines');
    figures.push({ what: 'size of the database with all shipped lines', value: await databaseSizeMb(db), unit: 'MB' });
  } finally {
    await server.stop();
    await bareDb.close();
  }
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
report(options, 'logs', figures, loadBefore, { jsonToo: true });
for (const failure of failures) say(`failed: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
