/** Evidence is read in an order that loses nothing and never contradicts what happened, however transactions overlap. */
import fc from 'fast-check';
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import {
  type Cursor,
  type Fact,
  headCursor,
  parseCursor,
  readAfter,
  readTimeline,
  recordEvidence,
  startCursor,
} from './evidence.ts';

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
  // Rows that stand for what a door locks: the version a writer finds under the lock says what really came first.
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
  evidenceWritten: () => {},
});

/** Locks a thing as the door does, and tells of it. */
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

interface Told {
  run: string;
  thing: number;
  version: number;
}

let runs = 0;

/** Plays the actions on real connections, one at a time except where one waits for a lock; a reader follows all along. */
async function play(plan: Action[]): Promise<{ told: Told[]; kept: Told[]; readAnew: Told[] }> {
  const run = `run ${runs++}`;
  const start = await headCursor(db);
  let cursor: Cursor = start;
  const told: Told[] = [];
  const open = new Map<number, Set<number>>();
  const holder = new Map<number, number>();
  const waiting = new Map<number, Promise<void>>();

  const follow = async () => {
    for (;;) {
      const { items } = await readAfter(db, cursor, 3);
      for (const item of items) {
        cursor = parseCursor(item.cursor) ?? cursor;
        if (item.data.run === run) told.push(item.data as unknown as Told);
      }
      if (items.length < 3) return;
    }
  };
  const begin = async (at: number) => {
    if (open.has(at)) return;
    await sessions[at]?.query('begin');
    open.set(at, new Set());
  };
  const end = async (at: number, how: 'commit' | 'rollback') => {
    if (!open.has(at) || waiting.has(at)) return;
    await sessions[at]?.query(how);
    const freed = [...(open.get(at) ?? [])];
    open.delete(at);
    for (const thing of freed) holder.delete(thing);
    // Whoever waited for one of them goes on now.
    for (const [other, done] of waiting) {
      const wants = [...(open.get(other) ?? [])].find((thing) => freed.includes(thing));
      if (wants === undefined || holder.has(wants)) continue;
      holder.set(wants, other);
      waiting.delete(other);
      await done;
    }
  };
  for (const { session: at, act, thing } of plan) {
    const session = sessions[at];
    if (!session || waiting.has(at)) continue;
    if (act === 'commit' || act === 'rollback') await end(at, act);
    else {
      await begin(at);
      // A transaction that wrote something else first has its id from then on.
      if (act === 'early-id') await session.query('select pg_current_xact_id()');
      else if (holder.get(thing) === at || !holder.has(thing)) {
        holder.set(thing, at);
        open.get(at)?.add(thing);
        await change(session, run, thing);
      } else if (waiting.size === 0 && (open.get(at)?.size ?? 0) === 0) {
        // It holds nothing itself, so its wait is no ring.
        open.get(at)?.add(thing);
        waiting.set(at, change(session, run, thing));
      }
    }
    await follow();
  }
  for (let at = 0; at < sessionCount; at++) await end(at, 'commit');
  for (let at = 0; at < sessionCount; at++) await end(at, 'commit');
  const kept = await db.query<{ data: Told }>(`select data from evidence where data ->> 'run' = $1 order by seq`, [
    run,
  ]);
  // The horizon is the whole server's: transactions of other databases hold it up for a moment.
  await until('everything to be told', async () => {
    await follow();
    return told.length >= kept.length;
  });
  const again: Told[] = [];
  for (let from: Cursor = start; ; ) {
    const { items } = await readAfter(db, from, 2);
    again.push(...items.filter((item) => item.data.run === run).map((item) => item.data as unknown as Told));
    const last = items.at(-1);
    if (!last) break;
    from = parseCursor(last.cursor) ?? from;
  }
  return { told, kept: kept.map((row) => row.data), readAnew: again };
}

test('a follower loses nothing, repeats nothing and sees each thing change in the order it did', async () => {
  await fc.assert(
    fc.asyncProperty(actions, async (plan) => {
      const { told, kept, readAnew } = await play(plan);
      expect(told.length).toBe(kept.length);
      for (let thing = 1; thing <= thingCount; thing++) {
        const versions = (list: Told[]) => list.filter((each) => each.thing === thing).map((each) => each.version);
        expect(versions(told)).toEqual(versions(kept));
      }
      // Whoever reads later, in other portions, reads the same in the same order.
      expect(readAnew).toEqual(told);
    }),
    { numRuns: 60 },
  );
});

test('who had an id first but came second is told of second', async () => {
  const [early, quick] = sessions;
  if (!early || !quick) throw new Error('two sessions are needed');
  const start = await headCursor(db);
  await early.query('begin');
  await early.query('select pg_current_xact_id()');
  await quick.query('begin');
  await change(quick, 'overtaken', 1);
  await quick.query('commit');
  // It is written, but something older still runs.
  const { items: readTooEarly, withheld } = await readAfter(db, start, 10_000);
  expect(readTooEarly.filter((item) => item.data.run === 'overtaken')).toEqual([]);
  expect(withheld).toBe(true);
  await change(early, 'overtaken', 1);
  await early.query('commit');
  const items = await until('both to be told', async () => {
    const read = await readAfter(db, start, 10_000);
    return read.withheld ? undefined : read.items.filter((item) => item.data.run === 'overtaken');
  });
  const versions = items.map((item) => Number(item.data.version));
  expect(versions.length).toBe(2);
  expect(versions).toEqual([...versions].sort((a, b) => a - b));
});

test('no fact needs a later transaction to become readable', async () => {
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

test('a timeline pages through everything once, in both directions', async () => {
  const node = await fleet.node('ready');
  const all = await until('the timeline to be readable', async () => {
    const page = await readTimeline(db, { visibility: wholeFleet, node_id: node.node_id, order: 'oldest', limit: 100 });
    // The last of them becomes readable last.
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

test('the facts of an instance are all there, whoever told them and whatever else they name, and in their order', async () => {
  const { node_id, node_instance_id } = await fleet.node('ready');
  const told = (summary: string, fact: Partial<Fact>): Fact => ({
    at: fleet.now(),
    layer: 'rule',
    kind: 'node.explained',
    summary,
    node_id,
    node_instance_id,
    ...fact,
  });
  const facts = [
    told('by a rule', {}),
    told('by a stranger who knows the instance alone', { layer: 'api', node_id: null }),
    told('by a rule, of the life before', { node_instance_id: 'inst_before' as never }),
    told('by the store', { layer: 'store' }),
    told('by a rule again', {}),
  ];
  for (const fact of facts) await recordEvidence(db, [fact]);
  const expected = facts.filter((fact) => fact.node_instance_id === node_instance_id).map(({ summary }) => summary);
  const read = async (order: 'oldest' | 'newest') => {
    const asked = { node_instance_id: node_instance_id ?? '', kind: 'node.explained', order, limit: 2 };
    const first = await readTimeline(db, { visibility: wholeFleet, ...asked });
    const cursor = parseCursor(first.next_cursor ?? '');
    const second = await readTimeline(db, { visibility: wholeFleet, ...asked, ...(cursor && { cursor }) });
    return [...first.items, ...second.items].map(({ summary }) => summary);
  };
  await until('the last fact to be readable', async () => (await read('newest'))[0] === 'by a rule again' || undefined);
  expect(await read('oldest')).toEqual(expected);
  expect(await read('newest')).toEqual(expected.toReversed());
});

test('the head is the newest fact by number, not by letter', async () => {
  await recordEvidence(db, [{ at: fleet.now(), layer: 'api', kind: 'node.explained', summary: 'just now' }]);
  const [horizon] = await db.query<{ digits: number }>(
    'select length(pg_snapshot_xmax(pg_current_snapshot())::text) as digits',
  );
  // Older by number, and after it in the alphabet.
  const older = '9'.repeat((horizon?.digits ?? 0) - 1);
  await db.query(
    `insert into evidence (xid, seq, at, layer, kind, summary) values ($2::xid8, 0, $1, 'api', 'node.explained', 'long ago')`,
    [fleet.now(), older],
  );
  expect((await headCursor(db)).xid).not.toBe(older);
});

test('a cursor that is none is told from one', () => {
  expect(parseCursor('12-34')).toEqual({ xid: '12', seq: '34' });
  for (const text of ['', '12', '-', '1-', 'a-b', '1-2-3', `${'9'.repeat(30)}-1`, ' 1-2'])
    expect(parseCursor(text)).toBeUndefined();
  expect(startCursor).toEqual({ xid: '0', seq: '0' });
});
