/**
 * Appends the lines that agents ship to the logs of nodes. The statement that adds a batch also
 * advances the end of the instance's log, and requires that this end is before the first line of
 * the batch. A batch that arrives twice, on any replica, is therefore stored once.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import { maxCompressionCredit } from '../../lifecycle/limits/retention.ts';
import { type Database, type Queryable, single } from '../pg/database.ts';
import { holderOf } from '../rows/allocations.ts';
import { type Chunk, packLines } from './log-chunks.ts';

export interface LogOwner {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
}

export interface ShippedChunk extends LogOwner {
  chunk: Chunk;
}

/** An added chunk: the ids that its lines belong to, and the counters of its instance's log. */
export interface AddedChunk {
  node_instance_id: NodeInstanceId;
  allocation_id: string | null;
  correlation_id: string | null;
  workflow_id: string | null;
  unchecked_bytes: string;
  loose_chunks: number;
}

/** SQL for the bytes that a chunk counts towards the limit of its node. */
export const chargedBytes = `greatest(octet_length(content), raw_bytes / ${maxCompressionCredit})`;

/** Chunks below this size are joined with their neighbors once there are several. */
export const looseBelowBytes = 64 * 1024;

/** All contents are one parameter, because an array of bytea would be sent as hexadecimal text. */
const shipped = `shipped as (
  select node_instance_id, node_id, first_seq, last_seq, last_at, lines, raw_bytes, packing,
    substring($10::bytea from start + 1 for length) as content
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[],
    $6::int[], $7::int[], $8::text[], $9::int[], $11::int[]
  ) as list(
    node_instance_id, node_id, first_seq, last_seq, last_at,
    lines, raw_bytes, packing, start, length)
)`;

/** SQL that is true if the lines are from the current, unfenced instance of their node. */
const isCurrent = (lines: string) => `(
  select node.node_instance_id = ${lines}.node_instance_id
    and instance.fenced_at is null
  from nodes node, instances instance
  where node.node_id = ${lines}.node_id
    and instance.node_instance_id = ${lines}.node_instance_id
)`;

/**
 * The database decides which allocation the lines belong to, because a replica may still remember a
 * former tenant. Lines of a former instance belong to no allocation, because they are not from the
 * machine of the present holder.
 */
const added = `added as (
  insert into node_log_chunks (
    node_instance_id, last_seq, node_id, allocation_id,
    first_seq, last_at, lines, raw_bytes, packing, content)
  select node_instance_id, last_seq, node_id,
    case when ${isCurrent('shipped')} then ${holderOf('shipped.node_id')} end,
    first_seq, last_at, lines, raw_bytes, packing, content
  from shipped
  join moved using (node_instance_id)
  returning node_instance_id, node_id, allocation_id
)`;

const addAfterEnd = `
  with ${shipped},
  moved as (
    update node_log_ends as log_end
    set last_seq = shipped.last_seq,
      bytes = log_end.bytes + ${chargedBytes},
      unchecked_bytes = log_end.unchecked_bytes + ${chargedBytes},
      loose_chunks = log_end.loose_chunks + (raw_bytes < ${looseBelowBytes})::int
    from shipped
    where log_end.node_instance_id = shipped.node_instance_id
      -- True if none of the lines is stored yet.
      and log_end.last_seq < shipped.first_seq
    returning log_end.node_instance_id, log_end.unchecked_bytes, log_end.loose_chunks
  ),
  ${added}
  select added.node_instance_id, added.allocation_id, moved.unchecked_bytes, moved.loose_chunks,
    coalesce(allocation.correlation_id, node.correlation_id) as correlation_id,
    coalesce(node.workflow_id, allocation.workflow_id) as workflow_id
  from added
  join moved using (node_instance_id)
  left join nodes node on node.node_id = added.node_id and ${isCurrent('added')}
  left join allocations allocation on allocation.allocation_id = added.allocation_id`;

/**
 * Adds at most one chunk per instance. Skips chunks with lines that are already stored, and the
 * first chunk of an instance, whose end has no row yet; `addNewLines` adds those.
 */
export async function addChunks(db: Queryable, chunks: readonly ShippedChunk[]): Promise<AddedChunk[]> {
  const mapChunks = <T>(value: (chunk: Chunk) => T) => chunks.map(({ chunk }) => value(chunk));
  const lengths = mapChunks(({ content }) => content.length);
  let start = 0;
  const starts = lengths.map((length) => {
    const chunkStart = start;
    start += length;
    return chunkStart;
  });
  const values = [
    chunks.map(({ node_instance_id }) => node_instance_id),
    chunks.map(({ node_id }) => node_id),
    mapChunks(({ first_seq }) => first_seq),
    mapChunks(({ last_seq }) => last_seq),
    mapChunks(({ last_at }) => last_at),
    mapChunks(({ lines }) => lines),
    mapChunks(({ raw_bytes }) => raw_bytes),
    mapChunks(({ packing }) => packing),
    starts,
    Buffer.concat(mapChunks(({ content }) => content)),
    lengths,
  ];
  return db.query<AddedChunk>(addAfterEnd, values, { prepared: true });
}

/** Adds the lines that are not stored yet. Returns the number of the last stored line. */
export function addNewLines(
  db: Database,
  owner: LogOwner,
  lines: readonly ShippedLine[],
): Promise<{ last_seq: number; added: AddedChunk | undefined; fresh: readonly ShippedLine[] }> {
  return db.transaction(async (tx) => {
    await tx.query('insert into node_log_ends (node_instance_id, node_id) values ($1, $2) on conflict do nothing', [
      owner.node_instance_id,
      owner.node_id,
    ]);
    const end = await tx.query<{ last_seq: string }>(
      'select last_seq from node_log_ends where node_instance_id = $1 for update',
      [owner.node_instance_id],
    );
    const lastSeq = Number(single(end).last_seq);
    const fresh = lines.filter(({ seq }) => seq > lastSeq);
    if (fresh.length === 0) return { last_seq: lastSeq, added: undefined, fresh };
    const chunk = await packLines(fresh);
    const [added] = await addChunks(tx, [{ ...owner, chunk }]);
    return { last_seq: chunk.last_seq, added, fresh };
  });
}
