/**
 * Verification reports what a database administrator has changed, with the row and its partition.
 */
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { memoryKeyRing } from '../../../test/support/key-ring.ts';
import { now, type SealedStore, sealedStore } from '../../../test/support/sealed-store.ts';
import { encodeCheckpoint, signCheckpoint } from '../../contract/evidence/integrity/checkpoint.ts';
import { entryOf, packEntries } from '../../contract/evidence/integrity/entries.ts';
import { hashedColumns, type RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { parseCursor } from '../evidence/commit-order.ts';
import { rowTextColumns } from './row-text.ts';
import { createSealer } from './sealer.ts';

let store: SealedStore;

beforeAll(async () => {
  store = await sealedStore();
});
afterAll(() => store?.close());

const parsePosition = (cursor: string) => {
  const parsed = parseCursor(cursor);
  if (!parsed) throw new Error(`${cursor} is not a cursor`);
  return parsed;
};
const isRow = (cursor: string) => `xid = '${parsePosition(cursor).xid}' and seq = ${parsePosition(cursor).seq}`;
const rowFault = (code: string, cursor: string | undefined, moved_to: string | null = null, partition = 'rule') => ({
  code,
  partition,
  cursor,
  moved_to,
  checkpoint: null,
});

test('every column of evidence is hashed', async () => {
  const columns = await store.db.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = 'evidence'::regclass and attnum > 0 and not attisdropped`,
  );
  expect(columns.map(({ name }) => name).sort()).toEqual([...hashedColumns, 'xid', 'seq'].sort());
});

test('reports no fault for unchanged rows, and counts rows that are not sealed yet', async () => {
  const before = (await store.verify()).rows;
  await store.facts(5);
  await store.facts(3, 'node');
  await store.sealAll();
  await store.facts(2);
  const { rows, faults, unsealed } = await store.verify();
  expect({ rows: rows - before, faults, unsealed }).toEqual({ rows: 8, faults: [], unsealed: 2 });
  await store.sealAll();
});

/**
 * Runs the statements, verifies, and undoes them, so that each test starts with intact evidence.
 */
async function faultsAfter(statements: string[], undo: string[]) {
  for (const statement of statements) await store.dba.query(statement);
  const { faults } = await store.verify();
  for (const statement of undo) await store.dba.query(statement);
  expect((await store.verify()).faults).toEqual([]);
  return faults;
}

describe('names a row', () => {
  let cursors: string[];
  beforeAll(async () => {
    cursors = await store.facts(6);
    await store.sealAll();
    await store.dba.query('create table spare as select * from evidence');
  });
  const restore = (cursor: string) => `insert into evidence select * from spare where ${isRow(cursor)}`;
  const replace = (cursor: string) => [`delete from evidence where ${isRow(cursor)}`, restore(cursor)];
  const cursorAt = (index: number) => cursors[index] ?? '';

  test('that was deleted', async () => {
    const faults = await faultsAfter([`delete from evidence where ${isRow(cursorAt(1))}`], [restore(cursorAt(1))]);
    expect(faults).toEqual([rowFault('row_deleted', cursorAt(1))]);
  });

  test.for([
    ['summary', `summary = 'forged'`],
    [
      'data, by a number that a double cannot represent',
      `data = data || '{"decimal": 0.1000000000000000055511151231257827021181583404541015625}'`,
    ],
    ['actor', `actor = '{"kind":"token","id":"x","name":"x"}'`],
    ['time, by a microsecond', `at = at + interval '1 microsecond'`],
    ['origin', `origin = 'person'`],
    ['node', `node_id = 'node_other'`],
  ] as const)('whose %s was changed', async ([, set]) => {
    const faults = await faultsAfter([`update evidence set ${set} where ${isRow(cursorAt(2))}`], replace(cursorAt(2)));
    expect(faults).toEqual([rowFault('row_changed', cursorAt(2))]);
  });

  test('that was moved to another layer', async () => {
    const faults = await faultsAfter(
      [`update evidence set layer = 'node' where ${isRow(cursorAt(2))}`],
      replace(cursorAt(2)),
    );
    expect(faults).toEqual([rowFault('row_changed', cursorAt(2))]);
  });

  test('that swapped positions with another, both with their new positions', async () => {
    const swap = `update evidence set xid = case when ${isRow(cursorAt(1))} then '${parsePosition(cursorAt(4)).xid}'::xid8 else '${parsePosition(cursorAt(1)).xid}'::xid8 end,
      seq = case when ${isRow(cursorAt(1))} then ${parsePosition(cursorAt(4)).seq} else ${parsePosition(cursorAt(1)).seq} end
      where (${isRow(cursorAt(1))}) or (${isRow(cursorAt(4))})`;
    const faults = await faultsAfter([swap], [swap]);
    expect(faults).toEqual([
      rowFault('row_moved', cursorAt(1), cursorAt(4)),
      rowFault('row_moved', cursorAt(4), cursorAt(1)),
    ]);
  });

  test('that was inserted at a sealed position', async () => {
    const { xid, seq } = parsePosition(cursorAt(3));
    const forged = `insert into evidence (xid, seq, at, layer, kind, summary) values ('${xid}', ${seq}, '${now.toISOString()}', 'node', 'node.failed', 'forged')`;
    const faults = await faultsAfter([forged], [`delete from evidence where summary = 'forged'`]);
    expect(faults).toEqual([rowFault('row_inserted', cursorAt(3), null, 'node')]);
  });

  test('that was inserted together with a forged late entry', async () => {
    const { xid, seq } = parsePosition(cursorAt(3));
    await store.dba.query(
      `insert into evidence (xid, seq, at, layer, kind, summary) values ('${xid}', ${seq}, '${now.toISOString()}', 'node', 'node.failed', 'forged')`,
    );
    const [row] = await store.dba.query<RowText>(`select ${rowTextColumns} from evidence where summary = 'forged'`);
    if (!row) throw new Error('the row was not inserted');
    const rowsOnly = '(select max(checkpoint) from evidence_segments)';
    for (const checkpoint of ['999999', rowsOnly])
      await store.dba.query(
        `insert into evidence_late_rows (checkpoint, layer, xid, seq, entry) values (${checkpoint}, 'node', '${xid}', ${seq}, $1)`,
        [packEntries([entryOf(row)])],
      );
    const { faults } = await store.verify();
    await store.dba.query(`delete from evidence where summary = 'forged'`);
    await store.dba.query(`delete from evidence_late_rows where xid = '${xid}' and seq = ${seq}`);
    expect(faults).toEqual([rowFault('row_inserted', cursorAt(3), null, 'node')]);
  });

  test('that was deleted, although a cut signed by a key from the database covers it', async () => {
    const stranger = generateKeyPairSync('ed25519');
    const [newest] = await store.dba.query<{ body: string }>(
      'select body from evidence_checkpoints order by position desc limit 1',
    );
    const { segments: _, ...body } = JSON.parse(newest?.body ?? '{}');
    const cut = { partition: 'rule', piece: 'evidence_rule_rest', before: '2100-01-01T00:00:00.000Z', rows: 0 };
    const text = encodeCheckpoint({ ...body, kind: 'cut', kid: 'key_stranger', position: 900_000, segments: [], cut });
    const signature = signCheckpoint(text, stranger.privateKey);
    const public_key = stranger.publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
    await store.dba.query(
      `insert into evidence_keys (kid, public_key, checkpoint, introduced_at) values ('key_stranger', $1, 1, now())`,
      [public_key],
    );
    await store.dba.query(
      `insert into evidence_checkpoints (position, kind, through_xid, through_seq, body, signature)
       values (-1, 'cut', '0', 0, $1, $2)`,
      [text, signature],
    );
    const [deleted] = await store.dba.query<{ row: unknown }>(
      `select to_jsonb(evidence) as row from evidence where ${isRow(cursorAt(4))}`,
    );
    await store.dba.query(`delete from evidence where ${isRow(cursorAt(4))}`);
    const { faults } = await store.verify();
    await store.dba.query(`insert into evidence select * from jsonb_populate_record(null::evidence, $1)`, [
      deleted?.row,
    ]);
    await store.dba.query('delete from evidence_checkpoints where position = -1');
    await store.dba.query(`delete from evidence_keys where kid = 'key_stranger'`);
    expect(faults).toEqual([rowFault('row_deleted', cursorAt(4))]);
    expect((await store.verify()).faults).toEqual([]);
  });

  test('by its segment, if the row was deleted together with its sealed entry', async () => {
    const [segment] = await store.dba.query<{ checkpoint: string; entries: Buffer }>(
      `select checkpoint, entries from evidence_segments where layer = 'rule' order by checkpoint desc limit 1`,
    );
    const [last] = cursors.slice(-1);
    await store.dba.query('update evidence_segments set entries = $1 where checkpoint = $2', [
      segment?.entries.subarray(0, -56),
      segment?.checkpoint,
    ]);
    const faults = await faultsAfter(
      [`delete from evidence where ${isRow(last ?? '')}`],
      [
        restore(last ?? ''),
        `update evidence_segments set entries = '\\x${segment?.entries.toString('hex')}' where checkpoint = ${segment?.checkpoint}`,
      ],
    );
    expect(faults).toEqual([
      {
        code: 'segment_changed',
        partition: 'rule',
        cursor: cursorAt(0),
        moved_to: null,
        checkpoint: Number(segment?.checkpoint),
      },
    ]);
  });
});

describe('reports a checkpoint', () => {
  test('that was deleted', async () => {
    const [first] = await store.facts(1);
    await store.sealAll();
    await store.facts(1);
    await store.sealAll();
    await store.facts(1);
    await store.sealAll();
    const [{ position } = { position: '0' }] = await store.dba.query<{ position: string }>(
      `select checkpoint as position from evidence_segments where position('\\x${cursorBytes(first)}'::bytea in entries) > 0`,
    );
    await store.dba.query(
      `create table gone_segment as select * from evidence_segments where checkpoint = ${position}`,
    );
    await store.dba.query(
      `create table gone_checkpoint as select * from evidence_checkpoints where position = ${position}`,
    );
    const faults = await faultsAfter(
      [
        `delete from evidence_segments where checkpoint = ${position}`,
        `delete from evidence_checkpoints where position = ${position}`,
      ],
      [
        'insert into evidence_checkpoints select * from gone_checkpoint',
        'insert into evidence_segments select * from gone_segment',
      ],
    );
    expect(faults.map(({ code, checkpoint }) => ({ code, checkpoint }))).toEqual([
      { code: 'checkpoint_missing', checkpoint: Number(position) },
    ]);
  });

  test('whose text was changed as unsigned, and its successor as unlinked', async () => {
    await store.facts(1);
    await store.sealAll();
    await store.facts(1);
    await store.sealAll();
    const [{ position, body } = { position: '0', body: '' }] = await store.dba.query<{
      position: string;
      body: string;
    }>(`select position, body from evidence_checkpoints where kind = 'rows' order by position desc limit 1 offset 1`);
    const changed = body.replace(/"at":"2030/, '"at":"2029');
    const faults = await faultsAfter(
      [`update evidence_checkpoints set body = '${changed}' where position = ${position}`],
      [`update evidence_checkpoints set body = '${body}' where position = ${position}`],
    );
    expect(faults.map(({ code, checkpoint }) => ({ code, checkpoint }))).toEqual([
      { code: 'checkpoint_unsigned', checkpoint: Number(position) },
      { code: 'checkpoint_unlinked', checkpoint: Number(position) + 1 },
    ]);
  });

  test('that is signed by an untrusted key as unsigned', async () => {
    const other = memoryKeyRing();
    const stranger = createSealer({
      db: store.db,
      key_ring: {
        ...other,
        current: { ...other.current, kid: 'key_other' },
        all: [],
        byId: () => ({ ...other.current, kid: 'key_other' }),
      },
      installation: { installation_id: 'slipway-test' },
    });
    await store.facts(1);
    await expect.poll(() => stranger.sealBatch(now), { timeout: 60_000 }).toEqual({ rows: 1, more: false });
    const { faults } = await store.verify();
    expect(faults.map(({ code }) => code)).toEqual(['checkpoint_unsigned', 'checkpoint_unsigned']);
  });
});

test('truncated checkpoints are reported with an expected head, or after the sealer seals again', async () => {
  const own = await sealedStore();
  try {
    await own.facts(2);
    await own.sealAll();
    await own.facts(2);
    await own.sealAll();
    const { head } = await own.verify();
    // Let the sealer see the last checkpoint before it is deleted.
    await own.sealer.sealBatch(now);
    const newest = '(select max(position) from evidence_checkpoints)';
    await own.dba.query(`delete from evidence_segments where checkpoint = ${newest}`);
    await own.dba.query(`delete from evidence_checkpoints where position = ${newest}`);
    expect((await own.verify()).faults).toEqual([]);
    expect((await own.verify({ expected_head: head ?? '' })).faults.map(({ code }) => code)).toEqual(['head_missing']);
    await own.sealAll();
    expect((await own.verify()).faults.map(({ code, checkpoint }) => ({ code, checkpoint }))).toEqual([
      { code: 'checkpoint_lost', checkpoint: 3 },
    ]);
  } finally {
    await own.close();
  }
});

test('accepts checkpoints of a new key that a trusted key introduced', async () => {
  const ring = memoryKeyRing();
  const own = await sealedStore(ring);
  try {
    await own.facts(1);
    await own.sealAll();
    const fresh = { ...memoryKeyRing().current, kid: 'key_second' };
    const rotated = {
      path: ring.path,
      current: fresh,
      all: [fresh, ring.current],
      byId: (kid: string) => [fresh, ring.current].find((key) => key.kid === kid),
    };
    await own.facts(1);
    const second = createSealer({ db: own.db, key_ring: rotated, installation: { installation_id: 'slipway-test' } });
    await expect.poll(() => second.sealBatch(now), { timeout: 60_000 }).toEqual({ rows: 1, more: false });
    expect((await own.verify()).faults).toEqual([]);
  } finally {
    await own.close();
  }
});

test('the application may not change, delete or truncate seals', async () => {
  for (const table of ['evidence_checkpoints', 'evidence_segments', 'evidence_late_rows', 'evidence_keys'])
    for (const statement of [`delete from ${table}`, `truncate ${table}`, `update ${table} set checkpoint = 1`])
      await expect(
        store.db.query(
          statement.replace('set checkpoint', table === 'evidence_checkpoints' ? 'set position' : 'set checkpoint'),
        ),
      ).rejects.toThrow('permission denied');
});

function cursorBytes(cursor: string | undefined): string {
  const { xid, seq } = parsePosition(cursor ?? '');
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64BE(BigInt(xid));
  bytes.writeBigInt64BE(BigInt(seq), 8);
  return bytes.toString('hex');
}
