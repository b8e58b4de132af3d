/**
 * A dump that is restored into another cluster keeps its history: all facts are visible, new facts
 * follow them, and readers continue from cursors from before the restore.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type FreshCluster,
  freshCluster,
  restoreInto,
  useTransactionIds,
} from '../../../test/support/restored-store.ts';
import { type SealedStore, sealedStore, verifyAll } from '../../../test/support/sealed-store.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { compareSlice } from '../history/row-comparison.ts';
import { createSealer } from '../integrity/sealer.ts';
import { migrate } from '../migrate.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { testFleet } from '../testing/fleet.ts';
import { type Cursor, isAfter, parseCursor, readHeadCursor, resumeFrom, startCursor } from './commit-order.ts';
import { readTimeline, readVisibleAfter, recordEvidence } from './evidence.ts';
import { startTail } from './tail.ts';

const at = new Date('2030-01-01T00:00:00Z');
const slice = { cursor: '', limit: 100 };
const filter = { visibility: wholeFleet };

let source: SealedStore;
let node_id: NodeId;
let cluster: FreshCluster;
let db: Database;

const toCursor = (text: string | undefined): Cursor => parseCursor(text ?? '') ?? startCursor;

async function readAllCursors(database: Database, after = startCursor): Promise<string[]> {
  const cursors: string[] = [];
  for (let cursor = after, more = true; more; ) {
    const page = await readVisibleAfter(database, cursor, filter, 50);
    cursors.push(...page.items.map((fact) => fact.cursor));
    ({ reached: cursor, more } = page);
  }
  return cursors;
}

const countFacts = async (database: Database): Promise<number> =>
  (await database.query<{ facts: number }>('select count(*)::int as facts from evidence'))[0]?.facts ?? 0;

const record = (database: Database, summary: string) =>
  recordEvidence(database, [{ at, layer: 'api', kind: 'node.explained', summary }]);

/** Older transactions of other tests may withhold facts. */
const untilReadable = (database: Database) =>
  until(
    'all facts to be readable',
    async () => (await readAllCursors(database)).length === (await countFacts(database)),
  );

beforeAll(async () => {
  source = await sealedStore();
  await useTransactionIds(source.dba, 20_000);
  const fleet = await testFleet(source.db);
  node_id = (await fleet.node('ready')).node_id;
  await fleet.node('provisioning');
  await source.facts(30);
  await source.sealAll();
  await record(source.db, 'the last unsealed fact of the backup');
  await untilReadable(source.db);
});

afterAll(() => source.close());

test('an era is never negative, even if the PostgreSQL timeline went back', async () => {
  const changed = source.dba.transaction(async (tx) => {
    await tx.query('select evidence_begin_era(-5)');
    expect(await tx.query('select evidence_era()::int as era')).toEqual([{ era: 0 }]);
    throw new Error('roll back');
  });
  await expect(changed).rejects.toThrow('roll back');
});

describe.each([
  { name: 'a restored dump', rows_only: false, sign: 'other_cluster' },
  { name: 'rows that were restored into a new schema', rows_only: true, sign: 'counter_went_back' },
])('$name', ({ rows_only, sign }) => {
  let backup: string[];

  beforeAll(async () => {
    cluster = await freshCluster();
    backup = await readAllCursors(source.db);
    await restoreInto(cluster.url, source.dba, { rows_only });
    db = openDatabase({ url: cluster.url });
    return async () => {
      await db.close();
      await cluster.stop();
    };
  });

  test('begins one era, however often the server starts', async () => {
    const { restored } = await migrate(cluster.url);
    expect(restored).toEqual({ era: '1', sign, last: backup.at(-1) });
    expect((await migrate(cluster.url)).restored).toBeUndefined();
    const { items } = await readTimeline(db, { ...filter, kind: 'evidence.restored', limit: 5 });
    expect(items.map(({ data }) => data)).toEqual([restored]);
  });

  test('shows every fact, and new facts after them', async () => {
    expect((await readAllCursors(db)).slice(0, backup.length)).toEqual(backup);
    await record(db, 'after the restore');
    await untilReadable(db);
    const { items } = await readTimeline(db, { ...filter, limit: 1 });
    expect(items.map(({ summary }) => summary)).toEqual(['after the restore']);
  });

  test('lets a reader continue from a cursor from before the restore, and returns each fact once', async () => {
    const middle = backup[Math.floor(backup.length / 2)];
    const read = await readAllCursors(db, toCursor(middle));
    expect(read).toEqual((await readAllCursors(db)).slice(backup.indexOf(middle ?? '') + 1));
    expect(read.length).toBeGreaterThan(backup.length / 2);
  });

  test('pages back from a new fact to the first', async () => {
    const cursors: string[] = [];
    for (let cursor: Cursor | undefined; ; ) {
      const page = await readTimeline(db, { ...filter, limit: 7, ...(cursor && { cursor }) });
      cursors.push(...page.items.map((fact) => fact.cursor));
      if (page.next_cursor === null) break;
      cursor = toCursor(page.next_cursor);
    }
    expect(cursors).toEqual((await readAllCursors(db)).toReversed());
    expect(cursors.length).toBeGreaterThan(backup.length);
  });

  test('is followed by the tail', async () => {
    const errors: unknown[] = [];
    const tail = await startTail({ db, clock: systemClock, onError: (error) => errors.push(error) });
    const received: string[] = [];
    tail.subscribe((fact) => received.push(fact.summary));
    // The newest fact of the first era is far above the counter of this cluster.
    expect(isAfter(toCursor(tail.position()), toCursor(backup.at(-1)))).toBe(true);
    await record(db, 'for the tail');
    await until('the fact at the tail', () => received.length > 0);
    expect({ received, errors }).toEqual({ received: ['for the tail'], errors: [] });
    await tail.stop();
  });

  test('passes verify-store, with the rows from before and after the restore sealed', async () => {
    const sealer = createSealer({ db, key_ring: source.ring, installation: { installation_id: 'slipway-test' } });
    await untilReadable(db);
    while ((await sealer.sealBatch(at)).more);
    const verified = await verifyAll(db, source.signer);
    expect(verified).toMatchObject({ faults: [], more_faults: 0, unsealed: 0 });
    expect(verified.rows).toBe(await countFacts(db));
  });

  test('has no drift, also after a row changes', async () => {
    expect((await compareSlice(db, 'nodes', slice)).differing).toEqual([]);
    const fleet = await testFleet(db);
    await fleet.move({ node_id, to: 'offline', by: 'liveness', reason: 'silent' });
    expect((await compareSlice(db, 'nodes', slice)).differing).toEqual([]);
  });

  test('recognizes cursors of facts that the backup does not have', async () => {
    await record(source.db, 'after the backup');
    await untilReadable(source.db);
    const lost = await readHeadCursor(source.db);
    expect(await resumeFrom(source.db, lost)).toEqual({ cursor: lost, lost: false });
    expect(await resumeFrom(db, lost)).toEqual({ cursor: lost, lost: true });
    for (const cursor of [startCursor, toCursor(backup[3]), toCursor(backup.at(-1)), await readHeadCursor(db)])
      expect(await resumeFrom(db, cursor)).toEqual({ cursor, lost: false });
    // No fact of this database is after this cursor, so the reader continues at the head.
    const ahead = { xid: String(2n ** 63n), seq: '1' };
    expect(await resumeFrom(db, ahead)).toEqual({ cursor: await readHeadCursor(db), lost: true });
    // The reader misses nothing that this database has.
    await record(db, 'after both');
    await untilReadable(db);
    const { items } = await readVisibleAfter(db, lost, filter, 100);
    expect(items.at(0)?.kind).toBe('evidence.restored');
    expect(items.at(-1)?.summary).toBe('after both');
  });
});
