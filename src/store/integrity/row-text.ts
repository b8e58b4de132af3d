/** Selects evidence rows as text, for hashing. */
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';

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
