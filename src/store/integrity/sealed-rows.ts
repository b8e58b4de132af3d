/** Compares single rows with their seals, and finds the position of each row in its chain. */
import {
  type CheckpointBody,
  checkpointHash,
  isSignedBy,
  readCheckpoint,
} from '../../contract/evidence/integrity/checkpoint.ts';
import { chainHead, type Entry, entryOf, unpackEntries } from '../../contract/evidence/integrity/entries.ts';
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { isAfter } from '../evidence/commit-order.ts';
import type { Queryable } from '../pg/database.ts';
import { readChainEnd } from './checkpoints.ts';
import type { EvidenceSigner } from './signer.ts';

export interface SealedPlace {
  /** The number of the row in the chain of its layer, from 1. */
  row: number;
  row_hash: string;
  checkpoint: number;
  checkpoint_hash: string;
}

export type SealCheck =
  | { state: 'intact'; place: SealedPlace }
  /** The row is newer than the newest checkpoint. */
  | { state: 'unsealed' }
  /** The row or its seal was changed. */
  | { state: 'changed' }
  /** The key file lacks the key of the checkpoint, so the row cannot be checked. */
  | { state: 'key_missing'; kid: string };

interface StoredCheckpoint {
  position: string;
  body: string;
  signature: Buffer;
}

interface ReadCheckpoint {
  kid: string | undefined;
  /** Undefined if the checkpoint was changed or its key is missing. */
  verified?: { body: CheckpointBody; hash: string };
}

/**
 * Trusts only keys of the key file, because anyone who can change the database can add keys to its
 * table.
 */
function verifyCheckpoint(stored: StoredCheckpoint, signer: EvidenceSigner): ReadCheckpoint {
  const body = readCheckpoint(stored.body);
  const key = body && signer.byId(body.kid);
  if (!body || !key) return { kid: body?.kid };
  const signature = stored.signature.toString('base64');
  if (!isSignedBy({ body: stored.body, signature }, key.public_key)) return { kid: body.kid };
  return { kid: body.kid, verified: { body, hash: checkpointHash(stored.body) } };
}

interface StoredSegment {
  position: string;
  layer: string;
  entries: Buffer;
}

/** Finds a row in the sealed list of a layer. */
type FindRow = (wanted: Entry) => SealedPlace | undefined;

/** Returns undefined if the stored list is not the signed one. */
function createFinder({ verified }: ReadCheckpoint, { layer, entries: packed }: StoredSegment): FindRow | undefined {
  const segment = verified?.body.segments.find(({ partition }) => partition === layer);
  if (!verified || !segment || chainHead(segment.from, packed) !== segment.head) return undefined;
  const entries = unpackEntries(packed);
  return (wanted) => {
    const isWanted = ({ xid, seq }: Entry) => xid === wanted.xid && seq === wanted.seq;
    const index = entries?.findIndex((each) => isWanted(each) && each.hash.equals(wanted.hash)) ?? -1;
    if (index < 0) return undefined;
    return {
      row: segment.before + index + 1,
      row_hash: wanted.hash.toString('hex'),
      checkpoint: verified.body.position,
      checkpoint_hash: verified.hash,
    };
  };
}

/**
 * Reads, for each row, the checkpoint that covers its position and the checkpoints that sealed late
 * rows at that position.
 */
async function readCandidates(db: Queryable, rows: readonly RowText[]): Promise<Map<number, string[]>> {
  const candidates = await db.query<{ ordinal: string; position: string }>(
    `select wanted.ordinal, checkpoint.position
     from unnest($1::text[], $2::text[], $3::bigint[]) with ordinality as wanted(layer, xid, seq, ordinal)
     cross join lateral (
       (
         select position
         from evidence_checkpoints
         where (through_xid, through_seq) >= (wanted.xid::xid8, wanted.seq)
           and kind = 'rows'
         order by through_xid, through_seq, position
         limit 1
       )
       union all
       (
         select late.checkpoint
         from evidence_late_rows late
         where late.xid = wanted.xid::xid8
           and late.seq = wanted.seq
           and late.layer = wanted.layer
         limit 10
       )
     ) checkpoint`,
    [rows.map(({ layer }) => layer), rows.map(({ xid }) => xid), rows.map(({ seq }) => seq)],
  );
  const byRow = new Map<number, string[]>();
  for (const { ordinal, position } of candidates) {
    const index = Number(ordinal) - 1;
    byRow.set(index, [...(byRow.get(index) ?? []), position]);
  }
  return byRow;
}

const sealKey = (position: string, layer: string): string => `${position} ${layer}`;

/** Reads and verifies each checkpoint once, and reads only the lists of the wanted layers. */
async function readSeals(
  db: Queryable,
  signer: EvidenceSigner,
  rows: readonly RowText[],
  candidates: ReadonlyMap<number, string[]>,
): Promise<{ checkpoints: Map<string, ReadCheckpoint>; lists: Map<string, FindRow | undefined> }> {
  const wanted = new Map(
    rows.flatMap(({ layer }, index) =>
      (candidates.get(index) ?? []).map((position) => [sealKey(position, layer), { position, layer }] as const),
    ),
  );
  const positions = [...wanted.values()].map(({ position }) => position);
  const stored = await db.query<StoredCheckpoint>(
    'select position, body, signature from evidence_checkpoints where position = any($1)',
    [[...new Set(positions)]],
  );
  const checkpoints = new Map(stored.map((each) => [each.position, verifyCheckpoint(each, signer)]));
  const segments = await db.query<StoredSegment>(
    `select segment.checkpoint as position, segment.layer, segment.entries
     from unnest($1::bigint[], $2::text[]) as wanted(position, layer)
     join evidence_segments segment
       on segment.checkpoint = wanted.position
       and segment.layer = wanted.layer`,
    [positions, [...wanted.values()].map(({ layer }) => layer)],
  );
  const lists = segments.map((segment) => {
    const checkpoint = checkpoints.get(segment.position);
    return [sealKey(segment.position, segment.layer), checkpoint && createFinder(checkpoint, segment)] as const;
  });
  return { checkpoints, lists: new Map(lists) };
}

/** Returns one result for each row, in the order of the rows. */
export async function checkSeals(
  db: Queryable,
  signer: EvidenceSigner,
  rows: readonly RowText[],
): Promise<SealCheck[]> {
  // Read the end first, so that the next query finds the checkpoint of every row up to that end.
  const { through } = await readChainEnd(db);
  const candidates = await readCandidates(db, rows);
  const { checkpoints, lists } = await readSeals(db, signer, rows, candidates);
  return rows.map((row, index): SealCheck => {
    if (isAfter(row, through)) return { state: 'unsealed' };
    const positions = candidates.get(index) ?? [];
    const entry = entryOf(row);
    for (const position of positions) {
      const place = lists.get(sealKey(position, row.layer))?.(entry);
      if (place) return { state: 'intact', place };
    }
    const missingKid = positions
      .flatMap((position) => checkpoints.get(position)?.kid ?? [])
      .find((kid) => !signer.byId(kid));
    return missingKid === undefined ? { state: 'changed' } : { state: 'key_missing', kid: missingKid };
  });
}
