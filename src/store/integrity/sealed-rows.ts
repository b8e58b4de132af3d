/** Compares single rows with their seals, and says where each stands in the chain of its partition. */
import { checkpointHash, isSignedBy, readCheckpoint } from '../../contract/integrity/checkpoint.ts';
import { chainHead, cursorOf, type Entry, entryOf, unpackEntries } from '../../contract/integrity/entries.ts';
import type { RowText } from '../../contract/integrity/row-hash.ts';
import type { Queryable } from '../database.ts';
import { isAfter } from '../evidence.ts';
import { chainEnd } from './checkpoints.ts';
import type { EvidenceSigner } from './signer.ts';

export interface SealedPlace {
  /** Counted from 1. */
  row: number;
  row_hash: string;
  checkpoint: number;
  checkpoint_hash: string;
}

export type SealCheck =
  | { state: 'intact'; place: SealedPlace }
  /** Newer than the newest checkpoint. */
  | { state: 'unsealed' }
  /** Not as it was sealed, or its seal was changed. */
  | { state: 'changed' }
  /** The checkpoint names a key that the key file does not hold, so nothing can be said. */
  | { state: 'key_missing'; kid: string };

interface Seal {
  kid: string | undefined;
  /** Undefined where the checkpoint or its list was changed, or the key is not held. */
  find?(entry: Entry): SealedPlace | undefined;
}

/** Only keys of the key file count: whoever can change the database can put a key of their own there. */
function readSeal(stored: StoredSeal, layer: string, signer: EvidenceSigner): Seal {
  const body = readCheckpoint(stored.body);
  const key = body && signer.byId(body.kid);
  if (!body || !key) return { kid: body?.kid };
  const isSigned = isSignedBy({ body: stored.body, signature: stored.signature.toString('base64') }, key.public_key);
  const segment = body.segments.find(({ partition }) => partition === layer);
  const entries = stored.entries ? unpackEntries(stored.entries) : undefined;
  if (!isSigned || !segment || !stored.entries || !entries || chainHead(segment.from, stored.entries) !== segment.head)
    return { kid: body.kid };
  return {
    kid: body.kid,
    find(wanted) {
      const index = entries.findIndex((each) => cursorOf(each) === cursorOf(wanted) && each.hash.equals(wanted.hash));
      if (index < 0) return undefined;
      return {
        row: segment.before + index + 1,
        row_hash: wanted.hash.toString('hex'),
        checkpoint: body.position,
        checkpoint_hash: checkpointHash(stored.body),
      };
    },
  };
}

interface StoredSeal {
  position: string;
  layer: string;
  body: string;
  signature: Buffer;
  entries: Buffer | null;
}

/** For each row the checkpoint of its place in the order, and those that sealed a late row there. */
async function candidatesOf(db: Queryable, rows: readonly RowText[]): Promise<Map<number, string[]>> {
  const found = await db.query<{ ordinal: string; position: string }>(
    `select wanted.ordinal, checkpoint.position
     from unnest($1::text[], $2::text[], $3::bigint[]) with ordinality as wanted(layer, xid, seq, ordinal)
     cross join lateral (
       (select position from evidence_checkpoints
        where (through_xid, through_seq) >= (wanted.xid::xid8, wanted.seq) and kind = 'rows'
        order by through_xid, through_seq, position limit 1)
       union all
       (select late.checkpoint from evidence_late_rows late
        where late.xid = wanted.xid::xid8 and late.seq = wanted.seq and late.layer = wanted.layer limit 10)) checkpoint`,
    [rows.map(({ layer }) => layer), rows.map(({ xid }) => xid), rows.map(({ seq }) => seq)],
  );
  const byRow = new Map<number, string[]>();
  for (const { ordinal, position } of found) {
    const index = Number(ordinal) - 1;
    byRow.set(index, [...(byRow.get(index) ?? []), position]);
  }
  return byRow;
}

/** One answer for each row, in their order. */
export async function checkSeals(
  db: Queryable,
  signer: EvidenceSigner,
  rows: readonly RowText[],
): Promise<SealCheck[]> {
  // Read first: what was sealed by now has its checkpoint in the next query.
  const { through } = await chainEnd(db);
  const candidates = await candidatesOf(db, rows);
  const positions = [...new Set([...candidates.values()].flat())];
  const layers = [...new Set(rows.map(({ layer }) => layer))];
  const stored = await db.query<StoredSeal>(
    `select checkpoint.position, wanted.layer, checkpoint.body, checkpoint.signature, segment.entries
     from evidence_checkpoints checkpoint
     cross join unnest($2::text[]) as wanted(layer)
     left join evidence_segments segment on segment.checkpoint = checkpoint.position and segment.layer = wanted.layer
     where checkpoint.position = any($1)`,
    [positions, layers],
  );
  const seals = new Map(stored.map((each) => [`${each.position} ${each.layer}`, readSeal(each, each.layer, signer)]));
  return rows.map((row, index): SealCheck => {
    if (isAfter(row, through)) return { state: 'unsealed' };
    const own = (candidates.get(index) ?? []).flatMap((position) => seals.get(`${position} ${row.layer}`) ?? []);
    const entry = entryOf(row);
    for (const seal of own) {
      const place = seal.find?.(entry);
      if (place) return { state: 'intact', place };
    }
    const unknown = own.find(({ kid, find }) => !find && kid !== undefined && !signer.byId(kid));
    return unknown?.kid === undefined ? { state: 'changed' } : { state: 'key_missing', kid: unknown.kid };
  });
}
