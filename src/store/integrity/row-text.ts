/** Reads evidence rows as text, for hashing. */
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import type { Cursor } from '../evidence/commit-order.ts';
import type { Queryable } from '../pg/database.ts';

/** The text of a column must not depend on settings of the session, or hashes would differ. */
const textOfColumn: Record<keyof RowText, string> = {
  xid: 'xid::text',
  seq: 'seq::text',
  at: 'extract(epoch from at)::text',
  layer: 'layer',
  kind: 'kind',
  summary: 'summary',
  data: 'data::text',
  actor: 'actor::text',
  node_id: 'node_id',
  node_instance_id: 'node_instance_id',
  correlation_id: 'correlation_id',
  allocation_id: 'allocation_id',
  workflow_id: 'workflow_id',
  origin: 'origin',
};

export const rowTextColumns = Object.entries(textOfColumn)
  .map(([column, sql]) => `${sql} as ${column}`)
  .join(', ');

/** Reads all rows with one cursor. */
export const readRowsAt = (db: Queryable, { xid, seq }: Cursor): Promise<RowText[]> =>
  db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where xid = $1::xid8
       and seq = $2::bigint`,
    [xid, seq],
  );
