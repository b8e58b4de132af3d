/**
 * Logs are stored once and in order, limited per node, searched, and shown only to their tenant.
 */
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { maxCompressionCredit } from '../../lifecycle/limits/retention.ts';
import { tenantOnly, type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { createPoolRedactors } from '../rows/secrets/pool-redactors.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { createLogWriter, type LogWriter } from './log-writer.ts';
import { parseLogCursor, readLastLines, readLines } from './node-logs.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let logs: LogWriter;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  logs = writer();
});

afterAll(async () => {
  await logs.settled();
  await store.close();
});

const writer = (most_bytes_per_node = 2 ** 30) =>
  createLogWriter({
    db,
    pool_redactors: createPoolRedactors(db.redact, async () => {}),
    most_bytes_per_node,
    onError: (error) => {
      throw error;
    },
  });

const createOwner = async () => {
  const { node_id, node_instance_id, pool } = await fleet.node('ready');
  return { node_id, node_instance_id: node_instance_id as NodeInstanceId, pool };
};

const line = (seq: number, text = `line ${seq}`) => ({
  seq,
  at: '2026-01-01T00:00:00.000Z',
  stream: 'stdout' as const,
  line: text,
});
const page = { visibility: wholeFleet, limit: 1000 };

const linesFrom = (first: number, last: number, text?: (seq: number) => string) =>
  Array.from({ length: last - first + 1 }, (_, i) => line(first + i, text?.(first + i)));
const readChunks = (node_id: string) =>
  db.query<{ lines: number; packing: string; raw_bytes: number; bytes: number }>(
    `select lines, packing, raw_bytes, octet_length(content) as bytes
     from node_log_chunks
     where node_id = $1
     order by node_instance_id, last_seq`,
    [node_id],
  );
const chargedBytes = ({ bytes, raw_bytes }: { bytes: number; raw_bytes: number }) =>
  Math.max(bytes, Math.floor(raw_bytes / maxCompressionCredit));
const readTexts = async (node_id: string) => (await readLines(db, { node_id, ...page })).items.map((item) => item.line);

test('stores the first version of each line once, although lines are shipped again', async () => {
  const batch = fc.tuple(fc.integer({ min: 1, max: 10 }), fc.integer({ min: 0, max: 12 }));
  await fc.assert(
    fc.asyncProperty(fc.array(batch, { maxLength: 8 }), async (batches) => {
      const ids = await createOwner();
      const expected: string[] = [];
      let lastStored = 0;
      // An agent continues after the acknowledged lines, or repeats some if a reply was lost.
      for (const [round, [length, repeated]] of batches.entries()) {
        const first = Math.max(1, lastStored + 1 - repeated);
        const lines = linesFrom(first, first + length - 1, (seq) => `${seq} of round ${round}`);
        expected.push(...lines.filter(({ seq }) => seq > lastStored).map((each) => each.line));
        lastStored = Math.max(lastStored, first + length - 1);
        expect(await logs.store(ids, lines)).toBe(lastStored);
      }
      expect(await readTexts(ids.node_id)).toEqual(expected);
    }),
    { numRuns: 20 },
  );
});

test('stores each line once when the same lines arrive concurrently at several replicas', async () => {
  const ids = await createOwner();
  const lines = linesFrom(1, 200);
  const other = writer();
  await Promise.all([
    logs.store(ids, lines),
    other.store(ids, lines.slice(0, 120)),
    logs.store(ids, lines),
    other.store(ids, lines),
  ]);
  const { items } = await readLines(db, { node_id: ids.node_id, ...page });
  expect(items.map((item) => item.seq)).toEqual(lines.map((each) => each.seq));
});

test('stores the lines of many concurrent nodes in order', async () => {
  const nodes = await Promise.all(Array.from({ length: 8 }, createOwner));
  const rounds = [1, 2, 3, 4, 5];
  await Promise.all(
    nodes.map(async (ids, node) => {
      for (const round of rounds)
        await logs.store(
          ids,
          linesFrom(round * 10 - 9, round * 10, (seq) => `${node} says ${seq}`),
        );
    }),
  );
  for (const [node, { node_id }] of nodes.entries())
    expect(await readTexts(node_id)).toEqual(linesFrom(1, 50).map(({ seq }) => `${node} says ${seq}`));
});

test('sorts lines that are out of order, and normalizes their times', async () => {
  const ids = await createOwner();
  await logs.store(ids, [
    { ...line(3), at: '2026-01-01T02:00:00.5+02:00' },
    line(1),
    { ...line(2), at: '2026-12-31t23:59:60z' },
    line(3, 'a second one'),
  ]);
  const { items } = await readLines(db, { node_id: ids.node_id, ...page });
  expect(items.map(({ seq, at }) => [seq, at])).toEqual([
    [1, '2026-01-01T00:00:00.000Z'],
    [2, '2026-12-31T23:59:59.000Z'],
    [3, '2026-01-01T00:00:00.500Z'],
  ]);
  const since = { node_id: ids.node_id, ...page, since: '2026-01-01T00:00:00.200Z' };
  expect((await readLines(db, since)).items.map(({ seq }) => seq)).toEqual([2, 3]);
});

test('compresses chunks, and joins chunks of single lines', async () => {
  const ids = await createOwner();
  const textOf = (seq: number) => `GET /v1/items/${seq} 200 in ${seq % 40} ms`;
  await logs.store(ids, linesFrom(1, 1000, textOf));
  const [whole] = await readChunks(ids.node_id);
  expect(whole?.packing).toBe('zstd');
  expect(whole?.bytes).toBeLessThan((whole?.raw_bytes ?? 0) / 4);
  for (let seq = 1001; seq <= 1200; seq++) await logs.store(ids, linesFrom(seq, seq, textOf));
  await logs.settled();
  expect((await readChunks(ids.node_id)).length).toBeLessThan(100);
  const { items } = await readLines(db, { node_id: ids.node_id, visibility: wholeFleet, limit: 2000 });
  expect(items.map((item) => item.line)).toEqual(linesFrom(1, 1200, textOf).map((each) => each.line));
  const ends = await db.query<{ bytes: string }>('select bytes from node_log_ends where node_id = $1', [ids.node_id]);
  expect(Number(ends[0]?.bytes)).toBe(
    (await readChunks(ids.node_id)).reduce((sum, each) => sum + chargedBytes(each), 0),
  );
});

test('drops the oldest lines of a node over its limit, and adds a line with their number', async () => {
  const ids = await createOwner();
  const small = writer(4_000);
  const noise = () => randomBytes(100).toString('base64');
  for (let round = 0; round < 20; round++) {
    await small.store(ids, linesFrom(round * 10 + 1, round * 10 + 10, noise));
    await small.settled();
  }
  const { items } = await readLines(db, { node_id: ids.node_id, ...page });
  const [notice, ...remaining] = items;
  const dropped = Number(/^dropped (\d+) lines: the logs of this node/.exec(notice?.line ?? '')?.[1]);
  expect(dropped).toBe(200 - remaining.length);
  expect(remaining.map(({ seq }) => seq)).toEqual(linesFrom(dropped + 1, 200).map(({ seq }) => seq));
  expect(notice).toMatchObject({ seq: dropped, stream: 'agent' });
  const storedBytes = (await readChunks(ids.node_id)).reduce((sum, { bytes }) => sum + bytes, 0);
  expect(storedBytes).toBeLessThan(6_000);
  // Dropped lines are not stored again.
  expect(await small.store(ids, linesFrom(1, 5))).toBe(200);
  expect((await readLines(db, { node_id: ids.node_id, ...page })).items).toEqual(items);
});

test('charges lines that compress very well by a share of their raw size', async () => {
  const ids = await createOwner();
  const small = writer(40_000);
  const repeated = () => 'a'.repeat(1_000);
  for (let round = 0; round < 20; round++) {
    await small.store(ids, linesFrom(round * 50 + 1, round * 50 + 50, repeated));
    await small.settled();
  }
  const chunks = await readChunks(ids.node_id);
  const sum = (measure: (chunk: (typeof chunks)[number]) => number) =>
    chunks.reduce((total, chunk) => total + measure(chunk), 0);
  expect(
    sum(({ bytes }) => bytes),
    'the stored bytes are far below the limit',
  ).toBeLessThan(4_000);
  expect(sum(({ raw_bytes }) => raw_bytes)).toBeLessThan(40_000 * maxCompressionCredit);
  const { items } = await readLines(db, { node_id: ids.node_id, ...page });
  expect(items[0]?.line).toMatch(/^dropped \d+ lines/);
  expect(items.at(-1)?.seq).toBe(1_000);
  const ends = await db.query<{ bytes: string }>('select bytes from node_log_ends where node_id = $1', [ids.node_id]);
  expect(Number(ends[0]?.bytes)).toBe(sum(chargedBytes));
});

test('a search stops after max_read_bytes and continues from there, in both directions', async () => {
  const ids = await createOwner();
  for (let round = 0; round < 40; round++)
    await logs.store(
      ids,
      linesFrom(round * 10 + 1, round * 10 + 10, (seq) => (seq === 7 || seq === 393 ? 'needle' : `straw ${seq}`)),
    );
  const filter = { node_id: ids.node_id, ...page, q: 'needle', max_read_bytes: 100_000 };
  const found: number[] = [];
  let pages = 0;
  let after = parseLogCursor('');
  for (let more: string | null = ''; more !== null; pages++) {
    const { items, continue_at, next_cursor } = await readLines(db, { ...filter, ...(after && { after }) });
    found.push(...items.map(({ seq }) => seq));
    if (continue_at !== null) expect(continue_at).toBe(next_cursor);
    after = parseLogCursor(continue_at ?? '');
    more = continue_at;
  }
  expect(found).toEqual([7, 393]);
  expect(pages).toBeGreaterThan(2);

  const backwards: number[] = [];
  let before = parseLogCursor('');
  pages = 0;
  for (let more: string | null = ''; more !== null; pages++) {
    const { items, continue_at, next_cursor } = await readLines(db, {
      ...filter,
      tail: true,
      ...(before && { before }),
    });
    backwards.unshift(...items.map(({ seq }) => seq));
    if (pages === 0) expect(parseLogCursor(next_cursor ?? '')?.seq, 'a follower continues after the end').toBe(400);
    before = parseLogCursor(continue_at ?? '');
    more = continue_at;
  }
  expect(backwards).toEqual([7, 393]);
  expect(pages).toBeGreaterThan(2);
});

test('a search returns all matches, and its cursor points after the last line', async () => {
  const ids = await createOwner();
  for (let round = 0; round < 40; round++)
    await logs.store(
      ids,
      linesFrom(round * 10 + 1, round * 10 + 10, (seq) => (seq % 150 === 0 ? `Broken "pipe" ${seq}` : `fine ${seq}`)),
    );
  const found = await readLines(db, { node_id: ids.node_id, ...page, q: 'broken "PIPE"' });
  expect(found.items.map(({ seq }) => seq)).toEqual([150, 300]);
  expect(parseLogCursor(found.next_cursor ?? '')?.seq).toBe(400);
  const tail = await readLines(db, { node_id: ids.node_id, visibility: wholeFleet, limit: 1, q: 'broken', tail: true });
  expect(tail.items.map(({ seq }) => seq)).toEqual([300]);
  expect(parseLogCursor(tail.next_cursor ?? '')?.seq).toBe(400);
  expect(await readLastLines(db, ids.node_instance_id, 2)).toEqual(['fine 399', 'fine 400']);
});

test('pages through lines by cursor, and returns the last lines oldest first', async () => {
  const ids = await createOwner();
  await logs.store(
    ids,
    Array.from({ length: 10 }, (_, i) => line(i + 1)),
  );
  const first = await readLines(db, { node_id: ids.node_id, visibility: wholeFleet, limit: 4 });
  const after = parseLogCursor(first.next_cursor ?? '');
  if (!after) throw new Error('no cursor');
  const second = await readLines(db, { node_id: ids.node_id, visibility: wholeFleet, limit: 100, after });
  expect([...first.items, ...second.items].map((item) => item.seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  const tail = await readLines(db, { node_id: ids.node_id, visibility: wholeFleet, limit: 3, tail: true });
  expect(tail.items.map((item) => item.seq)).toEqual([8, 9, 10]);
});

test('does not treat characters of the search text as wildcards', async () => {
  const ids = await createOwner();
  await logs.store(ids, [line(1, '100% done'), line(2, '1000 done'), line(3, 'a_b'), line(4, 'axb'), line(5, 'c\\d')]);
  const found = async (q: string) =>
    (await readLines(db, { node_id: ids.node_id, ...page, q })).items.map((item) => item.seq);
  expect(await found('100%')).toEqual([1]);
  expect(await found('A_B')).toEqual([3]);
  expect(await found('\\')).toEqual([5]);
});

test('a tenant reads only lines from the time when it held the node', async () => {
  const node = await fleet.node('ready');
  const ids = {
    node_id: node.node_id,
    node_instance_id: node.node_instance_id as NodeInstanceId,
    pool: node.pool,
  };
  await logs.store(ids, [line(1)]);
  const mine = await fleet.allocation('active', node, 'mine');
  await logs.store(ids, [line(2)]);
  for (const [to, by] of [
    ['releasing', 'release'],
    ['released', 'proof'],
  ] as const)
    await fleet.moveAllocation({ allocation_id: mine.allocation_id, to, by, reason: 'test' });
  await logs.store(ids, [line(3)]);
  const next = await fleet.allocation('active', node, 'next');
  await logs.store(ids, [line(4)]);
  const readSeqs = async (visibility: Visibility, allocation_id?: string) => {
    const filter = { node_id: node.node_id, limit: 10, visibility, ...(allocation_id && { allocation_id }) };
    return (await readLines(db, filter)).items.map((item) => item.seq);
  };
  expect(await readSeqs(tenantOnly('mine'))).toEqual([2]);
  expect(await readSeqs(tenantOnly('next'))).toEqual([4]);
  expect(await readSeqs(tenantOnly('other'))).toEqual([]);
  expect(await readSeqs(wholeFleet)).toEqual([1, 2, 3, 4]);
  expect(await readSeqs(wholeFleet, mine.allocation_id)).toEqual([2]);
  expect(await readSeqs(wholeFleet, next.allocation_id)).toEqual([4]);
  expect(await readSeqs(tenantOnly('next'), mine.allocation_id)).toEqual([]);
});

test('redacts a private key over several lines, across batches and replicas', async () => {
  const body = ['MIIEowIBAAKCAQEAplanted1'.padEnd(64, 'A'), 'planted2'.padEnd(64, 'B'), 'planted3='];
  const printed = ['before', '-----BEGIN RSA PRIVATE KEY-----', ...body, '-----END RSA PRIVATE KEY-----', 'after'];
  const shipped = printed.map((text, place) => line(place + 1, text));
  for (const end of printed.keys())
    for (const second of [logs, writer()]) {
      const ids = await createOwner();
      if (end > 0) await logs.store(ids, shipped.slice(0, end));
      // Repeat earlier lines, as an agent does after a lost reply.
      await second.store(ids, shipped.slice(end % 2 === 0 ? 0 : end));
      const kept = await readTexts(ids.node_id);
      expect(kept.join(), `cut before line ${end + 1}`).not.toContain('planted');
      expect([kept.length, kept[0], kept.at(-1)]).toEqual([printed.length, 'before', 'after']);
    }
  const ids = await createOwner();
  for (const each of shipped) await logs.store(ids, [each]);
  expect((await readTexts(ids.node_id)).join(), 'line by line').not.toContain('planted');
});
