/**
 * Joins small adjacent chunks, so that a node that writes single lines does not leave a row for
 * each.
 */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { chargedBytes, looseBelowBytes } from './add-log-chunks.ts';
import { type Packing, packLines, parseLine, unpackRecords } from './log-chunks.ts';

/** Small chunks are joined when an instance has this many. */
export const minLooseToJoin = 64;
const maxReadChunks = 4 * minLooseToJoin;

interface LooseRow {
  last_seq: string;
  node_id: string;
  allocation_id: string | null;
  dropped: string;
  raw_bytes: number;
  packing: Packing;
  content: Buffer;
}

const isLoose = ({ raw_bytes, dropped }: LooseRow) => raw_bytes < looseBelowBytes && dropped === '0';

/** Groups adjacent small chunks of one allocation. Leaves out notices about dropped lines. */
function groupNeighbors(rows: readonly LooseRow[]): LooseRow[][] {
  const groups: LooseRow[][] = [];
  let group: LooseRow[] = [];
  for (const row of rows) {
    const bytes = group.reduce((sum, { raw_bytes }) => sum + raw_bytes, 0);
    const canJoin = isLoose(row) && bytes < looseBelowBytes && group[0]?.allocation_id === row.allocation_id;
    if (canJoin && group.every(isLoose)) group.push(row);
    else {
      group = [row];
      groups.push(group);
    }
  }
  return groups.filter(({ length }) => length > 1);
}

async function joinGroup(tx: Transaction, node_instance_id: NodeInstanceId, group: LooseRow[]): Promise<void> {
  const records = await Promise.all(group.map(unpackRecords));
  const chunk = await packLines(records.flat().map(parseLine));
  const [first] = group;
  await tx.query('delete from node_log_chunks where node_instance_id = $1 and last_seq = any($2::bigint[])', [
    node_instance_id,
    group.map(({ last_seq }) => last_seq),
  ]);
  await tx.query(
    `insert into node_log_chunks (
       node_instance_id, last_seq, node_id, allocation_id,
       first_seq, last_at, lines, raw_bytes, packing, content)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      node_instance_id,
      chunk.last_seq,
      first?.node_id,
      first?.allocation_id,
      chunk.first_seq,
      chunk.last_at,
      chunk.lines,
      chunk.raw_bytes,
      chunk.packing,
      chunk.content,
    ],
  );
}

export async function joinLooseChunks(db: Database, node_instance_id: NodeInstanceId): Promise<void> {
  await db.transaction(async (tx) => {
    // Blocks concurrent writes to this log, and concurrent cuts.
    await tx.query('select 1 from node_log_ends where node_instance_id = $1 for update', [node_instance_id]);
    const rows = await tx.query<LooseRow>(
      `select last_seq, node_id, allocation_id, dropped, raw_bytes, packing, content
       from node_log_chunks
       where node_instance_id = $1
       order by last_seq desc
       limit $2`,
      [node_instance_id, maxReadChunks],
    );
    for (const group of groupNeighbors(rows.reverse())) await joinGroup(tx, node_instance_id, group);
    await tx.query(
      `update node_log_ends
       set loose_chunks = 0,
         bytes = (
           select coalesce(sum(${chargedBytes}), 0) from node_log_chunks
           where node_instance_id = $1
         )
       where node_instance_id = $1`,
      [node_instance_id],
    );
  });
}
