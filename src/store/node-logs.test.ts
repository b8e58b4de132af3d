import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { NodeInstanceId } from '../base/ids.ts';
import { type Database, openDatabase } from './database.ts';
import { parseLogCursor, readBootStages, readLines, storeBootStages, storeLines } from './node-logs.ts';
import { reportPrerequisites } from './prerequisites.ts';
import { type Fleet, testFleet } from './testing/fleet.ts';

let database: TestDatabase;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  database = await testDatabase();
  db = openDatabase({ url: database.url });
  fleet = await testFleet(db);
});

afterAll(async () => {
  await db.close();
  await database.drop();
});

const shipper = async () => {
  const { node_id, node_instance_id } = await fleet.node('ready');
  return { node_id, node_instance_id: node_instance_id as NodeInstanceId };
};

const line = (seq: number, text = `line ${seq}`) => ({
  seq,
  at: '2026-01-01T00:00:00.000Z',
  stream: 'stdout' as const,
  line: text,
});
const page = { tenant: null, limit: 1000 };

test('lines that are shipped again, in any portions, are kept once, as they first came', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 15 }), { maxLength: 8 }),
      async (portions) => {
        const ids = await shipper();
        for (const [round, seqs] of portions.entries()) {
          const unique = [...new Set(seqs)];
          const stored = await storeLines(
            db,
            ids,
            unique.map((seq) => line(seq, `${seq} of round ${round}`)),
          );
          expect(stored).toBe(Math.max(0, ...unique));
        }
        const { items } = await readLines(db, { node_id: ids.node_id, ...page });
        const first = new Map<number, number>();
        for (const [round, seqs] of portions.entries())
          for (const seq of seqs) if (!first.has(seq)) first.set(seq, round);
        const expected = [...first].sort(([a], [b]) => a - b).map(([seq, round]) => `${seq} of round ${round}`);
        expect(items.map((item) => item.line)).toEqual(expected);
      },
    ),
    { numRuns: 20 },
  );
});

test('two that ship the same at once lose nothing and repeat nothing', async () => {
  const ids = await shipper();
  const lines = Array.from({ length: 200 }, (_, i) => line(i + 1));
  await Promise.all([storeLines(db, ids, lines), storeLines(db, ids, lines), storeLines(db, ids, lines.slice(50))]);
  const { items } = await readLines(db, { node_id: ids.node_id, ...page });
  expect(items.map((item) => item.seq)).toEqual(lines.map((each) => each.seq));
});

test('lines are paged by cursor, and their tail is the last ones in the order they were written', async () => {
  const ids = await shipper();
  await storeLines(
    db,
    ids,
    Array.from({ length: 10 }, (_, i) => line(i + 1)),
  );
  const first = await readLines(db, { node_id: ids.node_id, tenant: null, limit: 4 });
  const after = parseLogCursor(first.next_cursor ?? '');
  if (!after) throw new Error('no cursor');
  const second = await readLines(db, { node_id: ids.node_id, tenant: null, limit: 100, after });
  expect([...first.items, ...second.items].map((item) => item.seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  const tail = await readLines(db, { node_id: ids.node_id, tenant: null, limit: 3, tail: true });
  expect(tail.items.map((item) => item.seq)).toEqual([8, 9, 10]);
});

test('what is searched for is taken literally', async () => {
  const ids = await shipper();
  await storeLines(db, ids, [
    line(1, '100% done'),
    line(2, '1000 done'),
    line(3, 'a_b'),
    line(4, 'axb'),
    line(5, 'c\\d'),
  ]);
  const found = async (q: string) =>
    (await readLines(db, { node_id: ids.node_id, ...page, q })).items.map((item) => item.seq);
  expect(await found('100%')).toEqual([1]);
  expect(await found('A_B')).toEqual([3]);
  expect(await found('\\')).toEqual([5]);
});

test('a tenant reads only what was written while the node was its own', async () => {
  const node = await fleet.node('ready');
  const ids = { node_id: node.node_id, node_instance_id: node.node_instance_id as NodeInstanceId };
  await storeLines(db, ids, [line(1)]);
  const mine = await fleet.allocation('active', node, 'mine');
  await storeLines(db, ids, [line(2)]);
  for (const [to, by] of [
    ['releasing', 'release'],
    ['released', 'proof'],
  ] as const)
    await fleet.moveAllocation({ allocation_id: mine.allocation_id, to, by, reason: 'done with it' });
  await storeLines(db, ids, [line(3)]);
  await fleet.allocation('active', node, 'next');
  await storeLines(db, ids, [line(4)]);
  const seen = async (tenant: string | null) =>
    (await readLines(db, { node_id: node.node_id, limit: 10, tenant })).items.map((item) => item.seq);
  expect(await seen('mine')).toEqual([2]);
  expect(await seen('next')).toEqual([4]);
  expect(await seen('other')).toEqual([]);
  expect(await seen(null)).toEqual([1, 2, 3, 4]);
});

test('a boot stage that is told again is one stage and one fact, unless it took longer', async () => {
  const ids = { ...(await shipper()), correlation_id: null };
  const stages = [
    { name: 'boot', seconds: 1 },
    { name: 'pull', seconds: 2, parent: 'boot' },
  ];
  await storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  await storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  await storeBootStages(
    db,
    ids,
    [
      { name: 'boot', seconds: 5 },
      { name: 'set-up', seconds: 1 },
    ],
    fleet.now(),
    fleet.environment,
  );
  expect(await readBootStages(db, ids.node_id, ids.node_instance_id)).toEqual([
    { name: 'boot', seconds: 5 },
    { name: 'pull', seconds: 2, parent: 'boot' },
    { name: 'set-up', seconds: 1 },
  ]);
  const facts = await db.query(`select 1 from evidence where node_id = $1 and kind = 'boot.stage'`, [ids.node_id]);
  expect(facts.length).toBe(4);
});

test('the facts of a boot belong to the tenant that the machine boots for', async () => {
  const node = await fleet.node('starting');
  const { allocation_id } = await fleet.allocation('provisioning', node, 'mine');
  const ids = { node_id: node.node_id, node_instance_id: node.node_instance_id as NodeInstanceId };
  const stages = [{ name: 'boot', seconds: 1 }];
  await storeBootStages(db, { ...ids, correlation_id: null }, stages, fleet.now(), fleet.environment);
  const checks = [{ name: 'disk', ok: true }];
  await reportPrerequisites(db, ids, checks, fleet.now(), fleet.environment);
  const facts = await db.query(
    `select kind, allocation_id from evidence where node_id = $1 and kind in ('boot.stage', 'prerequisite.met') order by kind`,
    [node.node_id],
  );
  expect(facts).toEqual([
    { kind: 'boot.stage', allocation_id },
    { kind: 'prerequisite.met', allocation_id },
  ]);
});

test('a stage that one report tells twice is one stage, with its last word', async () => {
  const ids = { ...(await shipper()), correlation_id: null };
  const stages = [
    { name: 'pull', seconds: 1 },
    { name: 'pull', seconds: 3 },
  ];
  await storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  expect(await readBootStages(db, ids.node_id, ids.node_instance_id)).toEqual([{ name: 'pull', seconds: 3 }]);
});
