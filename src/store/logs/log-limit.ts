/**
 * Limits the stored logs of a node. Drops the oldest lines. For each instance and allocation, one
 * line then states the number of dropped lines.
 */
import type { NodeId } from '../../base/ids.ts';
import { type Database, single } from '../pg/database.ts';
import { chargedBytes } from './add-log-chunks.ts';
import { packLines } from './log-chunks.ts';

/** Cuts to this share of the limit, so that not every batch causes a cut. */
const keptShare = 0.9;

interface CutRow {
  node_instance_id: string;
  allocation_id: string | null;
  last_seq: string;
  first_seq: string;
  last_at: Date;
  lines: string;
}

const lockEnds = `
  select 1 from node_log_ends
  where node_id = $1
  -- Every transaction locks these rows in the same order, so they cannot deadlock.
  order by node_instance_id
  for update`;

/**
 * Sums the chunks instead of reading `node_log_ends`, where earlier versions counted fewer bytes.
 */
const storedBytes = `
  select coalesce(sum(${chargedBytes}), 0) as bytes
  from node_log_chunks
  where node_id = $1`;

const setEnds = `
  update node_log_ends
  set unchecked_bytes = 0,
    bytes = (
      select coalesce(sum(${chargedBytes}), 0) from node_log_chunks
      where node_log_chunks.node_instance_id = node_log_ends.node_instance_id
    )
  where node_id = $1`;

/**
 * Deletes the oldest chunks until the others fit. A notice of an earlier cut counts as the lines
 * that were dropped then.
 */
const deleteOldest = `
  with deleted as (
    delete from node_log_chunks
    where (node_instance_id, last_seq) in (
      select node_instance_id, last_seq
      from (
        select node_instance_id, last_seq,
          sum(${chargedBytes}) over (order by node_instance_id desc, last_seq desc) as bytes_from_end
        from node_log_chunks
        where node_id = $1
      ) as counted
      where bytes_from_end > $2
    )
    returning node_instance_id, allocation_id, first_seq, last_seq, last_at,
      greatest(dropped, lines) as lines
  )
  select node_instance_id, allocation_id, max(last_seq) as last_seq, min(first_seq) as first_seq,
    max(last_at) as last_at, sum(lines) as lines
  from deleted
  group by node_instance_id, allocation_id`;

export async function cutLog(db: Database, node_id: NodeId, max_bytes: number): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query(lockEnds, [node_id]);
    const bytes = Number(single(await tx.query<{ bytes: string }>(storedBytes, [node_id])).bytes);
    const rows =
      bytes > max_bytes ? await tx.query<CutRow>(deleteOldest, [node_id, Math.floor(max_bytes * keptShare)]) : [];
    for (const row of rows) {
      const line = `dropped ${row.lines} lines: the logs of this node exceeded their limit of ${max_bytes} bytes`;
      const seq = Number(row.last_seq);
      const notice = { seq, at: row.last_at.toISOString(), stream: 'agent' as const, line };
      const chunk = await packLines([notice]);
      await tx.query(
        `insert into node_log_chunks (
           node_instance_id, last_seq, node_id, allocation_id,
           first_seq, last_at, lines, dropped, raw_bytes, packing, content)
         values ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $10)`,
        [
          row.node_instance_id,
          seq,
          node_id,
          row.allocation_id,
          row.first_seq,
          row.last_at,
          row.lines,
          chunk.raw_bytes,
          chunk.packing,
          chunk.content,
        ],
      );
    }
    await tx.query(setEnds, [node_id]);
  });
}
