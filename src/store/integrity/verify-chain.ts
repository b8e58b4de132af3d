/**
 * Compares the seals of evidence with the present rows, one bounded page of checkpoints at a time.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';
import type { EvidenceFault, UnsealedTail } from '../../contract/evidence/evidence-seals.ts';
import {
  type Checkpoint,
  type CheckpointBody,
  isSignedBy,
  readCheckpoint,
} from '../../contract/evidence/integrity/checkpoint.ts';
import { compareRows, type RowFault, type SealedEntry } from '../../contract/evidence/integrity/compare-rows.ts';
import { chainHead, entryOf, packEntries, unpackEntries } from '../../contract/evidence/integrity/entries.ts';
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { type Cursor, parseCursor, startCursor } from '../evidence/commit-order.ts';
import type { Queryable } from '../pg/database.ts';
import { rowTextColumns } from './row-text.ts';
import type { EvidenceSigner } from './signer.ts';

const maxCheckpoints = 50;
const maxRows = 4_000;
/**
 * A checkpoint seals about a thousand rows at most. If its interval has more rows than this, rows
 * were inserted.
 */
const maxIntervalRows = 20_000;
const maxFaults = 500;
const maxTailRows = 100_000;

export interface VerifiedPage {
  checkpoints: Checkpoint[];
  rows: number;
  faults: EvidenceFault[];
  more_faults: number;
  cuts: { checkpoint: number; rows: number }[];
  next: number | null;
  tail: UnsealedTail | null;
}

interface PlacedEntry extends SealedEntry {
  /** The position of the checkpoint that seals the entry. */
  checkpoint: number;
}

interface SignedCut {
  position: number;
  partition: string;
  before: bigint;
}

export async function listSealedKeys(
  db: Queryable,
): Promise<{ kid: string; public_key: string; introduced_at: Date }[]> {
  return db.query('select kid, public_key, introduced_at from evidence_keys order by checkpoint');
}

async function listKnownKeys(db: Queryable, signer: EvidenceSigner): Promise<KeyObject[]> {
  const stored = (await listSealedKeys(db)).flatMap(({ public_key }) => {
    try {
      return [createPublicKey({ key: Buffer.from(public_key, 'base64'), format: 'der', type: 'spki' })];
    } catch {
      return [];
    }
  });
  return [...signer.all().map(({ public_key }) => public_key), ...stored];
}

/**
 * Reads the signed cuts, which alone excuse a missing row. Keys from the database are accepted
 * here, so that a server can page through evidence whose key it has lost. The client checks every
 * cut again with the keys that it trusts.
 */
async function readSignedCuts(db: Queryable, signer: EvidenceSigner): Promise<SignedCut[]> {
  const rows = await db.query<{ position: string; body: string; signature: Buffer }>(
    `select position, body, signature
     from evidence_checkpoints
     where kind = 'cut'
       -- Pages verify checkpoints from position 1 on.
       and position >= 1
     order by position`,
  );
  if (rows.length === 0) return [];
  const keys = await listKnownKeys(db, signer);
  return rows.flatMap(({ position, body, signature }) => {
    const checkpoint = { body, signature: signature.toString('base64') };
    const read = readCheckpoint(body);
    if (!read?.cut || read.position !== Number(position) || !keys.some((key) => isSignedBy(checkpoint, key))) return [];
    const before = BigInt(Date.parse(read.cut.before)) * 1000n;
    return [{ position: read.position, partition: read.cut.partition, before }];
  });
}

const cursorOrStart = (text: string): Cursor => parseCursor(text) ?? startCursor;

async function readRowsBetween(db: Queryable, after: Cursor, through: Cursor): Promise<RowText[]> {
  return db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where (xid, seq) > ($1::xid8, $2::bigint)
       and (xid, seq) <= ($3::xid8, $4::bigint)
     order by evidence.xid, evidence.seq
     limit ${maxIntervalRows + 1}`,
    [after.xid, after.seq, through.xid, through.seq],
  );
}

/**
 * Reads the late entries of an interval. An entry counts only if its checkpoint is of kind `late`,
 * because `verifyLate` compares such entries with the signed list.
 */
async function readLateEntries(db: Queryable, after: Cursor, through: Cursor): Promise<PlacedEntry[]> {
  const rows = await db.query<{ checkpoint: string; layer: string; entry: Buffer; body: string }>(
    `select late.checkpoint, late.layer, late.entry, sealed.body
     from evidence_late_rows late
     join evidence_checkpoints sealed
       on sealed.position = late.checkpoint
       -- Pages verify checkpoints from position 1 on.
       and sealed.position >= 1
     where (late.xid, late.seq) > ($1::xid8, $2::bigint)
       and (late.xid, late.seq) <= ($3::xid8, $4::bigint)`,
    [after.xid, after.seq, through.xid, through.seq],
  );
  return rows.flatMap(({ checkpoint, layer, entry, body }) => {
    const read = readCheckpoint(body);
    if (read?.kind !== 'late' || read.position !== Number(checkpoint)) return [];
    return (unpackEntries(entry) ?? []).map((each) => ({ ...each, partition: layer, checkpoint: read.position }));
  });
}

const toEntryId = (entry: SealedEntry): string => `${entry.partition} ${packEntries([entry]).toString('latin1')}`;

interface Page {
  db: Queryable;
  cuts: SignedCut[];
  faults: EvidenceFault[];
  cutRows: Map<number, number>;
  /** The number of rows of intervals with too many rows, which were not all compared. */
  uncompared: number;
}

const toRowFault = (fault: RowFault): EvidenceFault => ({ checkpoint: null, until: null, ...fault });

const toSegmentFault = (body: CheckpointBody, segment: CheckpointBody['segments'][number]): EvidenceFault => ({
  code: 'segment_changed',
  checkpoint: body.position,
  partition: segment.partition,
  cursor: segment.first,
  until: segment.last,
  moved_to: null,
  hash: null,
});

/** Reads the entries of a checkpoint, and the segments that differ from the signed ones. */
async function readEntries(
  page: Page,
  body: CheckpointBody,
): Promise<{ entries: PlacedEntry[]; changed: CheckpointBody['segments'] }> {
  const stored = await page.db.query<{ layer: string; entries: Buffer }>(
    'select layer, entries from evidence_segments where checkpoint = $1',
    [body.position],
  );
  const byLayer = new Map(stored.map(({ layer, entries }) => [layer, entries]));
  const changed: CheckpointBody['segments'] = [];
  const entries: PlacedEntry[] = [];
  for (const segment of body.segments) {
    const packed = byLayer.get(segment.partition);
    const unpacked = packed && unpackEntries(packed);
    if (!packed || !unpacked || unpacked.length !== segment.rows || chainHead(segment.from, packed) !== segment.head)
      changed.push(segment);
    else
      for (const entry of unpacked) entries.push({ ...entry, partition: segment.partition, checkpoint: body.position });
  }
  return { entries, changed };
}

function findCut(page: Page, entry: PlacedEntry): SignedCut | undefined {
  return page.cuts.find(
    ({ partition, before, position }) =>
      partition === entry.partition && entry.at < before && position > entry.checkpoint,
  );
}

/**
 * Returns a fault for each changed segment. If only the stored list was changed, the rows
 * themselves still match the signed head.
 */
function toSegmentFaults(
  body: CheckpointBody,
  changed: CheckpointBody['segments'],
  present: SealedEntry[],
): EvidenceFault[] {
  return changed.map((segment) => {
    const rows = present.filter(({ partition }) => partition === segment.partition);
    const isIntact = rows.length === segment.rows && chainHead(segment.from, packEntries(rows)) === segment.head;
    return { ...toSegmentFault(body, segment), ...(isIntact && { code: 'segment_list_changed' as const }) };
  });
}

/**
 * Reads the rows of an interval. If too many rows were inserted, reads only rows at sealed
 * positions, and counts the rows as uncompared.
 */
async function readInterval(page: Page, after: Cursor, through: Cursor, sealed: SealedEntry[]): Promise<RowText[]> {
  const rows = await readRowsBetween(page.db, after, through);
  if (rows.length <= maxIntervalRows) return rows;
  page.uncompared += rows.length;
  return page.db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where (xid, seq) in (
       select xid::xid8, seq
       from unnest($1::text[], $2::bigint[]) as sealed(xid, seq)
     )
     limit ${maxIntervalRows}`,
    [sealed.map(({ xid }) => String(xid)), sealed.map(({ seq }) => String(seq))],
  );
}

async function verifyRows(page: Page, body: CheckpointBody): Promise<number> {
  const after = cursorOrStart(body.after);
  const through = cursorOrStart(body.through);
  const { entries, changed } = await readEntries(page, body);
  const late = await readLateEntries(page.db, after, through);
  const rows = await readInterval(page, after, through, [...entries, ...late]);
  const present = rows.map((row): SealedEntry => ({ ...entryOf(row), partition: row.layer }));
  const lateIds = new Set(late.map(toEntryId));
  const notLate = present.filter((entry) => !lateIds.has(toEntryId(entry)));
  page.faults.push(...toSegmentFaults(body, changed, notLate));
  // Skip the rows of a changed segment: its fault covers them, and all would appear as inserted.
  const skippedPartitions = new Set(changed.map(({ partition }) => partition));
  const comparable = present.filter(({ partition }) => !skippedPartitions.has(partition));
  const sealed = [...entries, ...late].filter(({ partition }) => !skippedPartitions.has(partition));
  const compared = compareRows(sealed, comparable, (entry) => findCut(page, entry as PlacedEntry) !== undefined);
  page.faults.push(...compared.faults.map(toRowFault));
  for (const entry of compared.cut) {
    const position = findCut(page, entry as PlacedEntry)?.position ?? 0;
    page.cutRows.set(position, (page.cutRows.get(position) ?? 0) + 1);
  }
  return compared.matched;
}

/** Compares the signed list of late entries with the rows of `evidence_late_rows`. */
async function verifyLate(page: Page, body: CheckpointBody): Promise<void> {
  const { entries, changed } = await readEntries(page, body);
  page.faults.push(...changed.map((segment) => toSegmentFault(body, segment)));
  const rows = await page.db.query<{ layer: string; entry: Buffer }>(
    'select layer, entry from evidence_late_rows where checkpoint = $1',
    [body.position],
  );
  const signed = entries.map(toEntryId).sort();
  const stored = rows.map(({ layer, entry }) => `${layer} ${entry.toString('latin1')}`).sort();
  if (changed.length === 0 && JSON.stringify(signed) !== JSON.stringify(stored))
    page.faults.push(
      ...body.segments.map((segment) => ({
        ...toSegmentFault(body, segment),
        code: 'segment_list_changed' as const,
      })),
    );
}

async function readUnsealedTail(db: Queryable): Promise<UnsealedTail> {
  const [row] = await db.query<{ rows: number; oldest_at: Date | null }>(
    `select count(*)::int as rows, min(at) as oldest_at
     from (
       select at
       from evidence
       where (xid, seq) > coalesce(
         (
           select (through_xid, through_seq)
           from evidence_checkpoints
           order by position desc
           limit 1
         ),
         ('0'::xid8, 0::bigint)
       )
       order by xid, seq
       limit ${maxTailRows}
     ) unsealed`,
  );
  return { rows: row?.rows ?? 0, oldest_at: row?.oldest_at?.toISOString() ?? null };
}

export async function verifyPage(db: Queryable, signer: EvidenceSigner, from: number): Promise<VerifiedPage> {
  const stored = await db.query<{ position: string; body: string; signature: Buffer }>(
    `select position, body, signature
     from evidence_checkpoints
     where position >= $1
     order by position
     limit ${maxCheckpoints + 1}`,
    [from],
  );
  const page: Page = { db, cuts: await readSignedCuts(db, signer), faults: [], cutRows: new Map(), uncompared: 0 };
  const checkpoints: Checkpoint[] = [];
  let rows = 0;
  for (const { body, signature } of stored.slice(0, maxCheckpoints)) {
    if (rows >= maxRows) break;
    checkpoints.push({ body, signature: signature.toString('base64') });
    const read = readCheckpoint(body);
    if (read?.kind === 'rows') rows += await verifyRows(page, read);
    if (read?.kind === 'late') await verifyLate(page, read);
  }
  const next = stored[checkpoints.length];
  return {
    checkpoints,
    rows,
    faults: page.faults.slice(0, maxFaults),
    more_faults: Math.max(0, page.faults.length - maxFaults) + page.uncompared,
    cuts: [...page.cutRows].map(([checkpoint, count]) => ({ checkpoint, rows: count })),
    next: next ? Number(next.position) : null,
    tail: next ? null : await readUnsealedTail(db),
  };
}
