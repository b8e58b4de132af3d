/** Where a row stands in the chain of its partition. */
import { checkpointHash, readCheckpoint } from '../../contract/integrity/checkpoint.ts';
import { cursorOf, unpackEntries } from '../../contract/integrity/entries.ts';
import type { Queryable } from '../database.ts';
import type { Cursor } from '../evidence.ts';

export interface SealedPlace {
  /** Counted from 1. */
  row: number;
  row_hash: string;
  checkpoint: number;
  checkpoint_hash: string;
}

/** Undefined while the row is not sealed yet. */
export async function sealedPlace(db: Queryable, layer: string, cursor: Cursor): Promise<SealedPlace | undefined> {
  const [found] = await db.query<{ body: string; entries: Buffer }>(
    `select checkpoint.body, segment.entries from (
       select position, body from evidence_checkpoints
       where (through_xid, through_seq) >= ($1::xid8, $2::bigint) and kind = 'rows'
       order by through_xid, through_seq, position limit 1) checkpoint
     join evidence_segments segment on segment.checkpoint = checkpoint.position and segment.layer = $3`,
    [cursor.xid, cursor.seq, layer],
  );
  const body = found && readCheckpoint(found.body);
  const segment = body?.segments.find(({ partition }) => partition === layer);
  if (!found || !body || !segment) return undefined;
  const entries = unpackEntries(found.entries) ?? [];
  const index = entries.findIndex((entry) => cursorOf(entry) === `${cursor.xid}-${cursor.seq}`);
  const entry = entries[index];
  if (!entry) return undefined;
  return {
    row: segment.before + index + 1,
    row_hash: entry.hash.toString('hex'),
    checkpoint: body.position,
    checkpoint_hash: checkpointHash(found.body),
  };
}
