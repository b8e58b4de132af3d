/** Readers get every fact once, in commit order, even if transactions overlap. */
import fc from 'fast-check';
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { type Cursor, parseCursor, readHeadCursor, startCursor } from './commit-order.ts';
import { type Fact, readAfter, readTimeline, recordEvidence } from './evidence.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
const sessions: pg.Client[] = [];
const sessionCount = 4;
const thingCount = 3;

beforeAll(async () => {
  store = await testStore({ max_connections: 4 });
  db = store.db;
  fleet = await testFleet(db);
  // Each row stands for one that a transition locks. A writer increments the version under the row
  // lock, so versions show the real order.
  await db.query('create table things (thing integer primary key, version integer not null)');
  await db.query('insert into things select thing, 0 from generate_series(1, $1) as thing', [thingCount]);
  for (let i = 0; i < sessionCount; i++) sessions.push(await db.connect(`session ${i}`));
});

afterAll(async () => {
  for (const session of sessions) await session.end();
  await store.close();
});

const asTransaction = (session: pg.Client): Transaction => ({
  transaction: true,
  redact: db.redact,
  query: async (text, values) => (await session.query(text, values)).rows,
  markEvidenceWritten: () => {},
});

/** Locks a row as a transition does, and records a fact about it. */
async function change(session: pg.Client, run: string, thing: number): Promise<void> {
  const tx = asTransaction(session);
  const [row] = await tx.query<{ version: number }>(
    'update things set version = version + 1 where thing = $1 returning version',
    [thing],
  );
  await recordEvidence(tx, [
    {
      at: fleet.now(),
      layer: 'workflow',
      kind: 'node.explained',
      summary: run,
      data: { run, thing, version: row?.version },
    },
  ]);
}

type Action = { session: number; act: 'change' | 'early-id' | 'commit' | 'rollback'; thing: number };

const actions: fc.Arbitrary<Action[]> = fc.array(
  fc.record({
    session: fc.nat(sessionCount - 1),
    act: fc.constantFrom(
      'change' as const,
      'change' as const,
      'early-id' as const,
      'commit' as const,
      'rollback' as const,
    ),
    thing: fc.integer({ min: 1, max: thingCount }),
  }),
  { minLength: 5, maxLength: 30 },
);

interface Change {
  run: string;
  thing: number;
  version: number;
}

let runs = 0;

/**
 * Runs the actions one after another on real connections, and lets a reader follow after each. An
 * action that waits for a lock stays pending.
 */
async function play(plan: Action[]): Promise<{ followed: Change[]; stored: Change[]; reread: Change[] }> {
  const run = `run ${runs++}`;
  const start = await readHeadCursor(db);
  let cursor: Cursor = start;
  const followed: Change[] = [];
  /** The things that each open transaction has locked or waits for. */
  const openTransactions = new Map<number, Set<number>>();
  const holders = new Map<number, number>();
  const waiting = new Map<number, Promise<void>>();

  const follow = async () => {
    for (;;) {
      const { items } = await readAfter(db, cursor, 3);
      for (const item of items) {
        cursor = parseCursor(item.cursor) ?? cursor;
        if (item.data.run === run) followed.push(item.data as unknown as Change);
      }
      if (items.length < 3) return;
    }
  };
  const begin = async (index: number) => {
    if (openTransactions.has(index)) return;
    await sessions[index]?.query('begin');
    openTransactions.set(index, new Set());
  };
  const end = async (index: number, outcome: 'commit' | 'rollback') => {
    if (!openTransactions.has(index) || waiting.has(index)) return;
    await sessions[index]?.query(outcome);
    const freed = [...(openTransactions.get(index) ?? [])];
    openTransactions.delete(index);
    for (const thing of freed) holders.delete(thing);
    // Sessions that waited for one of these locks continue now.
    for (const [other, done] of waiting) {
      const wantedThing = [...(openTransactions.get(other) ?? [])].find((thing) => freed.includes(thing));
      if (wantedThing === undefined || holders.has(wantedThing)) continue;
      holders.set(wantedThing, other);
      waiting.delete(other);
      await done;
    }
  };
  for (const { session: index, act, thing } of plan) {
    const session = sessions[index];
    if (!session || waiting.has(index)) continue;
    if (act === 'commit' || act === 'rollback') await end(index, act);
    else {
      await begin(index);
      // A transaction gets its id with its first write, which may be long before it records a fact.
      if (act === 'early-id') await session.query('select pg_current_xact_id()');
      else if (holders.get(thing) === index || !holders.has(thing)) {
        holders.set(thing, index);
        openTransactions.get(index)?.add(thing);
        await change(session, run, thing);
      } else if (waiting.size === 0 && (openTransactions.get(index)?.size ?? 0) === 0) {
        // This session holds no lock, so waiting for one cannot deadlock.
        openTransactions.get(index)?.add(thing);
        waiting.set(index, change(session, run, thing));
      }
    }
    await follow();
  }
  for (let index = 0; index < sessionCount; index++) await end(index, 'commit');
  // End again, for sessions that waited for a lock the first time.
  for (let index = 0; index < sessionCount; index++) await end(index, 'commit');
  const stored = await db.query<{ data: Change }>(`select data from evidence where data ->> 'run' = $1 order by seq`, [
    run,
  ]);
  // Running transactions of other databases on the server withhold facts too.
  await until('the reader to reach every fact', async () => {
    await follow();
    return followed.length >= stored.length;
  });
  const reread: Change[] = [];
  for (let from: Cursor = start; ; ) {
    const { items } = await readAfter(db, from, 2);
    reread.push(...items.filter((item) => item.data.run === run).map((item) => item.data as unknown as Change));
    const last = items.at(-1);
    if (!last) break;
    from = parseCursor(last.cursor) ?? from;
  }
  return { followed, stored: stored.map((row) => row.data), reread };
}

test('a reader gets every fact once, and the changes of each row in their real order', async () => {
  await fc.assert(
    fc.asyncProperty(actions, async (plan) => {
      const { followed, stored, reread } = await play(plan);
      expect(followed.length).toBe(stored.length);
      for (let thing = 1; thing <= thingCount; thing++) {
        const versions = (list: Change[]) => list.filter((each) => each.thing === thing).map((each) => each.version);
        expect(versions(followed)).toEqual(versions(stored));
      }
      // A later reader with another page size gets the same order.
      expect(reread).toEqual(followed);
    }),
    { numRuns: 60 },
  );
});

test('orders two changes of a row by its lock, not by transaction id', async () => {
  const [early, quick] = sessions;
  if (!early || !quick) throw new Error('two sessions are needed');
  const start = await readHeadCursor(db);
  await early.query('begin');
  await early.query('select pg_current_xact_id()');
  await quick.query('begin');
  await change(quick, 'overtaken', 1);
  await quick.query('commit');
  // The fact is committed, but an older transaction is still running.
  const { items: readTooEarly, withheld } = await readAfter(db, start, 10_000);
  expect(readTooEarly.filter((item) => item.data.run === 'overtaken')).toEqual([]);
  expect(withheld).toBe(true);
  await change(early, 'overtaken', 1);
  await early.query('commit');
  const items = await until('both facts to be readable', async () => {
    const read = await readAfter(db, start, 10_000);
    return read.withheld ? undefined : read.items.filter((item) => item.data.run === 'overtaken');
  });
  const versions = items.map((item) => Number(item.data.version));
  expect(versions.length).toBe(2);
  expect(versions).toEqual([...versions].sort((a, b) => a - b));
});

test('a fact of an old transaction becomes readable without a later commit', async () => {
  const [slow] = sessions;
  if (!slow) throw new Error('a session is needed');
  await slow.query('begin');
  await slow.query('select pg_current_xact_id()');
  for (let i = 0; i < 5; i++) await db.query('select pg_current_xact_id()');
  await change(slow, 'patient', 1);
  await slow.query('commit');
  const [row] = await db.query<{ readable: boolean }>(
    `select xid < pg_snapshot_xmax(pg_current_snapshot()) as readable from evidence where summary = 'patient'`,
  );
  expect(row?.readable).toBe(true);
});

test('pages through a timeline return each fact once, in both directions', async () => {
  const node = await fleet.node('ready');
  const all = await until('the timeline to be readable', async () => {
    const page = await readTimeline(db, { visibility: wholeFleet, node_id: node.node_id, order: 'oldest', limit: 100 });
    // The last fact becomes readable last.
    return page.items.at(-1)?.kind === 'node.ready' ? page : undefined;
  });
  expect(all.items.map((item) => item.kind)).toEqual(['node.provisioning', 'node.starting', 'node.ready']);
  for (const order of ['oldest', 'newest'] as const) {
    const seen: string[] = [];
    for (let cursor: Cursor | undefined, more = true; more; ) {
      const page = await readTimeline(db, {
        visibility: wholeFleet,
        node_id: node.node_id,
        order,
        limit: 1,
        ...(cursor && { cursor }),
      });
      seen.push(...page.items.map((item) => item.cursor));
      cursor = page.next_cursor ? parseCursor(page.next_cursor) : undefined;
      more = cursor !== undefined;
    }
    const expected = all.items.map((item) => item.cursor);
    expect(seen).toEqual(order === 'oldest' ? expected : expected.reverse());
  }
});

test('reads all facts of an instance in order, from any layer, with or without a node id', async () => {
  const { node_id, node_instance_id } = await fleet.node('ready');
  const buildFact = (summary: string, fact: Partial<Fact>): Fact => ({
    at: fleet.now(),
    layer: 'rule',
    kind: 'node.explained',
    summary,
    node_id,
    node_instance_id,
    ...fact,
  });
  const facts = [
    buildFact('by a rule', {}),
    buildFact('by a caller that names the instance only', { layer: 'api', node_id: null }),
    buildFact('by a rule, about the former instance', { node_instance_id: 'inst_former' as never }),
    buildFact('by the store', { layer: 'store' }),
    buildFact('by a rule again', {}),
  ];
  for (const fact of facts) await recordEvidence(db, [fact]);
  const expected = facts.filter((fact) => fact.node_instance_id === node_instance_id).map(({ summary }) => summary);
  const read = async (order: 'oldest' | 'newest') => {
    const filter = { node_instance_id: node_instance_id ?? '', kind: 'node.explained', order, limit: 2 };
    const first = await readTimeline(db, { visibility: wholeFleet, ...filter });
    const cursor = parseCursor(first.next_cursor ?? '');
    const second = await readTimeline(db, { visibility: wholeFleet, ...filter, ...(cursor && { cursor }) });
    return [...first.items, ...second.items].map(({ summary }) => summary);
  };
  await until('the last fact to be readable', async () => (await read('newest'))[0] === 'by a rule again' || undefined);
  expect(await read('oldest')).toEqual(expected);
  expect(await read('newest')).toEqual(expected.toReversed());
});

test('the head compares transaction ids as numbers, not as text', async () => {
  await recordEvidence(db, [{ at: fleet.now(), layer: 'api', kind: 'node.explained', summary: 'just now' }]);
  const [horizon] = await db.query<{ digits: number }>(
    'select length(pg_snapshot_xmax(pg_current_snapshot())::text) as digits',
  );
  // Smaller as a number, greater as text.
  const older = '9'.repeat((horizon?.digits ?? 0) - 1);
  await db.query(
    `insert into evidence (xid, seq, at, layer, kind, summary) values ($2::xid8, 0, $1, 'api', 'node.explained', 'long ago')`,
    [fleet.now(), older],
  );
  expect((await readHeadCursor(db)).xid).not.toBe(older);
});

test('parses a cursor, and returns undefined for malformed ones', () => {
  expect(parseCursor('12-34')).toEqual({ xid: '12', seq: '34' });
  for (const text of ['', '12', '-', '1-', 'a-b', '1-2-3', `${'9'.repeat(30)}-1`, ' 1-2'])
    expect(parseCursor(text)).toBeUndefined();
  expect(startCursor).toEqual({ xid: '0', seq: '0' });
});
