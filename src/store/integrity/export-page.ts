/**
 * Exports sealed evidence in pages. The rows of each checkpoint come first, in commit order, then
 * the checkpoint itself.
 */
import { type CheckpointBody, checkpointHash, readCheckpoint } from '../../contract/evidence/integrity/checkpoint.ts';
import { cursorOf, unpackEntries } from '../../contract/evidence/integrity/entries.ts';
import type { ExportRecord, RowRecord } from '../../contract/evidence/integrity/export-record.ts';
import { type RowText, rowHash } from '../../contract/evidence/integrity/row-hash.ts';
import { type Cursor, formatCursor, parseCursor, startCursor } from '../evidence/commit-order.ts';
import type { Queryable } from '../pg/database.ts';
import { readRowsAt, rowTextColumns } from './row-text.ts';

/** Where an export continues: after a cursor within the rows of the checkpoint at `position`. */
export interface ExportPlace {
  position: number;
  after: Cursor;
}

export interface ExportPage {
  records: ExportRecord[];
  next: ExportPlace;
  /** Whether all sealed evidence has been read. */
  at_end: boolean;
}

const maxCheckpoints = 100;
/** After every fact. */
const lastCursor: Cursor = { xid: '18446744073709551615', seq: '0' };

/** Finds the checkpoint that seals the first row after a cursor. */
export async function findPlaceAfter(db: Queryable, cursor: Cursor): Promise<ExportPlace> {
  const [row] = await db.query<{ position: string }>(
    `select position from evidence_checkpoints
     where (through_xid, through_seq) > ($1::xid8, $2::bigint)
     order by through_xid, through_seq, position
     limit 1`,
    [cursor.xid, cursor.seq],
  );
  const [end] = row
    ? []
    : await db.query<{ position: string | null }>('select max(position) + 1 as position from evidence_checkpoints');
  return { position: Number(row?.position ?? end?.position ?? 1), after: startCursor };
}

/** Finds the checkpoint that seals the first row at or after a time. */
export async function findPlaceSince(db: Queryable, at: Date): Promise<ExportPlace> {
  const [row] = await db.query<{ xid: string; seq: string }>(
    `select xid::text as xid, seq::text as seq
     from evidence
     where at >= $1
     order by evidence.xid, evidence.seq
     limit 1`,
    [at],
  );
  if (!row) return findPlaceAfter(db, lastCursor);
  return findPlaceAfter(db, { xid: row.xid, seq: String(BigInt(row.seq) - 1n) });
}

interface SealedHash {
  number: number;
  hash: string;
}

/** Returns the sealed hashes of a checkpoint, keyed by partition and cursor. */
function indexHashes(body: CheckpointBody, packed: ReadonlyMap<string, Buffer>): Map<string, SealedHash[]> {
  const hashes = new Map<string, SealedHash[]>();
  for (const segment of body.segments)
    (unpackEntries(packed.get(segment.partition) ?? Buffer.alloc(0)) ?? []).forEach((entry, index) => {
      const key = `${segment.partition} ${cursorOf(entry)}`;
      const sealed = { number: segment.before + index + 1, hash: entry.hash.toString('hex') };
      hashes.set(key, [...(hashes.get(key) ?? []), sealed]);
    });
  return hashes;
}

async function readRows(db: Queryable, body: CheckpointBody, after: Cursor, limit: number): Promise<RowText[]> {
  const start = body.kind === 'late' ? startCursor : (parseCursor(body.after) ?? startCursor);
  const from = after.xid === startCursor.xid ? start : after;
  const through = parseCursor(body.through) ?? startCursor;
  // PostgreSQL refuses a parameter that the statement does not use.
  const kindCondition =
    body.kind === 'late'
      ? 'and (xid, seq) in (select xid, seq from evidence_late_rows where checkpoint = $5)'
      : 'and $5::bigint is not null';
  return db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where (xid, seq) > ($1::xid8, $2::bigint)
       and (xid, seq) <= ($3::xid8, $4::bigint)
       ${kindCondition}
     order by evidence.xid, evidence.seq
     limit ${limit}`,
    [from.xid, from.seq, through.xid, through.seq, body.position],
  );
}

/**
 * Returns no record for a row that this checkpoint did not seal, because another one sealed it or
 * it was inserted later.
 */
function toRecords(row: RowText, checkpoint: number, hashes: Map<string, SealedHash[]>): RowRecord[] {
  const candidates = hashes.get(`${row.layer} ${row.xid}-${row.seq}`) ?? [];
  const hash = candidates.length > 1 ? rowHash(row).toString('hex') : undefined;
  const sealed = hash ? (candidates.find((each) => each.hash === hash) ?? candidates[0]) : candidates[0];
  return sealed ? [{ type: 'row', checkpoint, number: sealed.number, hash: sealed.hash, row }] : [];
}

export async function exportPage(db: Queryable, from: ExportPlace, maxRows: number): Promise<ExportPage> {
  const records: ExportRecord[] = [];
  let { position, after } = from;
  const stored = await db.query<{ position: string; body: string; signature: Buffer }>(
    `select position, body, signature
     from evidence_checkpoints
     where position >= $1
     order by position
     limit ${maxCheckpoints}`,
    [position],
  );
  for (const checkpoint of stored) {
    position = Number(checkpoint.position);
    const body = readCheckpoint(checkpoint.body);
    const segments = await db.query<{ layer: string; entries: Buffer }>(
      'select layer, entries from evidence_segments where checkpoint = $1',
      [position],
    );
    const packed = new Map(segments.map(({ layer, entries }) => [layer, entries]));
    if (body && body.segments.length > 0) {
      const remaining = maxRows - records.length;
      const rows = await readRows(db, body, after, remaining + 1);
      const hashes = indexHashes(body, packed);
      const pageRows = rows.length > remaining ? takeWholeCursors(rows, remaining) : rows;
      const [first] = rows;
      // A page that could not hold one cursor would end where it began.
      if (first && pageRows.length === 0 && records.length === 0) pageRows.push(...(await readRowsAt(db, first)));
      records.push(...pageRows.flatMap((row) => toRecords(row, position, hashes)));
      const last = pageRows.at(-1);
      if (rows.length > remaining)
        return { records, next: { position, after: last ? { xid: last.xid, seq: last.seq } : after }, at_end: false };
    }
    records.push({
      type: 'checkpoint',
      position,
      body: checkpoint.body,
      signature: checkpoint.signature.toString('base64'),
      hash: checkpointHash(checkpoint.body),
      entries: Object.fromEntries([...packed].map(([layer, entries]) => [layer, entries.toString('base64')])),
    });
    position++;
    after = startCursor;
    if (records.length >= maxRows) return { records, next: { position, after }, at_end: false };
  }
  return { records, next: { position, after }, at_end: stored.length < maxCheckpoints };
}

/** Returns at most `limit` rows, without splitting rows that share a cursor. */
function takeWholeCursors(rows: RowText[], limit: number): RowText[] {
  const firstBeyond = rows[limit];
  return rows.slice(0, limit).filter(({ xid, seq }) => xid !== firstBeyond?.xid || seq !== firstBeyond.seq);
}

export const formatPlace = ({ position, after }: ExportPlace): string => `${position}:${formatCursor(after)}`;

export function parsePlace(text: string): ExportPlace | undefined {
  const match = /^(\d{1,15}):(.+)$/.exec(text);
  const after = match?.[2] === undefined ? undefined : parseCursor(match[2]);
  return match?.[1] !== undefined && after ? { position: Number(match[1]), after } : undefined;
}
