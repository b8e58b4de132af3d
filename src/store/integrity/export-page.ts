/**
 * Sealed evidence in pages: the rows of each checkpoint in commit order, then the checkpoint
 * itself.
 */
import { type CheckpointBody, checkpointHash, readCheckpoint } from '../../contract/evidence/integrity/checkpoint.ts';
import { cursorOf, unpackEntries } from '../../contract/evidence/integrity/entries.ts';
import type { ExportRecord, RowRecord } from '../../contract/evidence/integrity/export-record.ts';
import { type RowText, rowHash } from '../../contract/evidence/integrity/row-hash.ts';
import { type Cursor, formatCursor, parseCursor, startCursor } from '../evidence/evidence.ts';
import type { Queryable } from '../pg/database.ts';
import { rowTextColumns } from './row-text.ts';

/** A position in the export: in the rows of a checkpoint, after a cursor. */
export interface ExportPlace {
  position: number;
  after: Cursor;
}

export interface ExportPage {
  records: ExportRecord[];
  next: ExportPlace;
  /** All sealed evidence has been read. */
  at_end: boolean;
}

const maxCheckpoints = 100;

export async function placeAfter(db: Queryable, cursor: Cursor): Promise<ExportPlace> {
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

/** The checkpoint that seals the first row from that time on. */
export async function placeSince(db: Queryable, at: Date): Promise<ExportPlace> {
  const [row] = await db.query<{ xid: string; seq: string }>(
    `select xid::text as xid, seq::text as seq
     from evidence
     where at >= $1
     order by evidence.xid, evidence.seq
     limit 1`,
    [at],
  );
  if (!row) return placeAfter(db, { xid: '18446744073709551615', seq: '0' });
  return placeAfter(db, { xid: row.xid, seq: String(BigInt(row.seq) - 1n) });
}

interface Listed {
  number: number;
  hash: string;
}

/** By partition and cursor. */
function listOf(body: CheckpointBody, packed: ReadonlyMap<string, Buffer>): Map<string, Listed[]> {
  const listed = new Map<string, Listed[]>();
  for (const segment of body.segments)
    (unpackEntries(packed.get(segment.partition) ?? Buffer.alloc(0)) ?? []).forEach((entry, index) => {
      const key = `${segment.partition} ${cursorOf(entry)}`;
      const each = { number: segment.before + index + 1, hash: entry.hash.toString('hex') };
      listed.set(key, [...(listed.get(key) ?? []), each]);
    });
  return listed;
}

async function rowsOf(db: Queryable, body: CheckpointBody, after: Cursor, limit: number): Promise<RowText[]> {
  const place = body.kind === 'late' ? startCursor : (parseCursor(body.after) ?? startCursor);
  const from = after.xid === startCursor.xid ? place : after;
  const through = parseCursor(body.through) ?? startCursor;
  const which =
    body.kind === 'late'
      ? 'and (xid, seq) in (select xid, seq from evidence_late_rows where checkpoint = $5)'
      : 'and $5::bigint is not null';
  return db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where (xid, seq) > ($1::xid8, $2::bigint)
       and (xid, seq) <= ($3::xid8, $4::bigint)
       ${which}
     order by evidence.xid, evidence.seq
     limit ${limit}`,
    [from.xid, from.seq, through.xid, through.seq, body.position],
  );
}

/** Leaves out rows that this checkpoint did not seal: another one did, or they were inserted. */
function recordOf(row: RowText, checkpoint: number, listed: Map<string, Listed[]>): RowRecord[] {
  const candidates = listed.get(`${row.layer} ${row.xid}-${row.seq}`) ?? [];
  const hash = candidates.length > 1 ? rowHash(row).toString('hex') : undefined;
  const place = hash ? (candidates.find((each) => each.hash === hash) ?? candidates[0]) : candidates[0];
  return place ? [{ type: 'row', checkpoint, number: place.number, hash: place.hash, row }] : [];
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
      const room = maxRows - records.length;
      const rows = await rowsOf(db, body, after, room + 1);
      const listed = listOf(body, packed);
      const whole = rows.length > room ? splitBefore(rows, room) : rows;
      records.push(...whole.flatMap((row) => recordOf(row, position, listed)));
      const last = whole.at(-1);
      if (whole.length < rows.length)
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

/** Ends the page between two cursors, since the next page begins after a cursor. */
function splitBefore(rows: RowText[], room: number): RowText[] {
  const beyond = rows[room];
  return rows.slice(0, room).filter(({ xid, seq }) => xid !== beyond?.xid || seq !== beyond.seq);
}

export const formatPlace = ({ position, after }: ExportPlace): string => `${position}:${formatCursor(after)}`;

export function parsePlace(text: string): ExportPlace | undefined {
  const match = /^(\d{1,15}):(.+)$/.exec(text);
  const after = match?.[2] === undefined ? undefined : parseCursor(match[2]);
  return match?.[1] !== undefined && after ? { position: Number(match[1]), after } : undefined;
}
