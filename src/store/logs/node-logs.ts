/** Reads and searches the stored logs of nodes, from the start or for the last lines. */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import type { LogLine, LogPage } from '../../contract/node.ts';
import { type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { parameters } from '../pg/walk.ts';
import { ofOwnAllocation } from '../visibility.ts';
import { type PackedContent, parseLine, unpackRecords } from './log-chunks.ts';

export interface LogPosition {
  node_instance_id: string;
  seq: number;
}

export interface LogFilter {
  /** Selects all instances of a node. Set this or `instance`. */
  node_id?: string;
  instance?: string;
  allocation_id?: string;
  since?: string;
  q?: string;
  tail?: boolean;
  after?: LogPosition;
  /** Continues a read of the last lines (`tail`) before this position. */
  before?: LogPosition;
  visibility: Visibility;
  limit: number;
  /** One call reads this many bytes before it returns the position at which to continue. */
  max_read_bytes?: number;
  /** Stops reading when this returns true, because the caller has disconnected. */
  isDisconnected?(): boolean;
}

interface ChunkRow extends PackedContent {
  node_instance_id: string;
  last_seq: string;
  raw_bytes: number;
}

/** A search reads few chunks per query, to use little memory and let other queries run between. */
const chunksAtOnce = 16;

/**
 * A call reads at most this many bytes. A small chunk counts as `minChunkBytes`, because reading
 * any chunk has a cost.
 */
const maxReadBytes = 32 * 1024 * 1024;
const minChunkBytes = 16 * 1024;

/** Reads the next chunks after a position, or before it if the filter asks for the last lines. */
function readNextChunks(db: Queryable, filter: LogFilter, from: LogPosition | undefined): Promise<ChunkRow[]> {
  const { values, bind } = parameters();
  const where: string[] = [];
  if (filter.node_id) where.push(`node_id = ${bind(filter.node_id)}`);
  if (filter.instance) where.push(`node_instance_id = ${bind(filter.instance)}`);
  if (filter.allocation_id) where.push(`allocation_id = ${bind(filter.allocation_id)}`);
  if (filter.since) where.push(`last_at >= ${bind(filter.since)}::timestamptz`);
  where.push(...ofOwnAllocation(filter.visibility, 'node_log_chunks', bind));
  const addBound = (position: LogPosition, sign: '>' | '<') =>
    where.push(
      `(node_instance_id, last_seq) ${sign} (${bind(position.node_instance_id)}, ${bind(position.seq)}::bigint)`,
    );
  if (filter.after) addBound(filter.after, '>');
  if (filter.before) addBound(filter.before, '<');
  if (from) addBound(from, filter.tail ? '<' : '>');
  const direction = filter.tail ? 'desc' : 'asc';
  return db.query<ChunkRow>(
    `select node_instance_id, last_seq, raw_bytes, packing, content
     from node_log_chunks
     where ${where.join(' and ')}
     order by node_instance_id ${direction}, last_seq ${direction}
     limit ${chunksAtOnce}`,
    values,
  );
}

/**
 * Returns two tests of a search: `mayMatch` for an unparsed record, which excludes most lines
 * without parsing them, and `matches` for a parsed line.
 */
function createSearch(q: string | undefined) {
  if (!q) return { mayMatch: () => true, matches: () => true };
  const wanted = q.toLowerCase();
  const escaped = JSON.stringify(wanted).slice(1, -1);
  return {
    mayMatch: (record: string) => record.toLowerCase().includes(escaped),
    matches: ({ line }: ShippedLine) => line.toLowerCase().includes(wanted),
  };
}

export async function readLines(db: Queryable, filter: LogFilter): Promise<LogPage> {
  const { mayMatch, matches } = createSearch(filter.q);
  const sinceMs = filter.since ? Date.parse(filter.since) : null;
  const { after, limit, tail = false } = filter;
  const items: LogLine[] = [];
  /** The last chunk that was read, even if no line matched. The next call continues after it. */
  let lastRead: LogPosition | undefined;
  let newest: LogPosition | undefined;
  let readBytes = 0;
  let isEnd = false;

  const matchingLines = async (row: ChunkRow): Promise<LogLine[]> => {
    const { node_instance_id } = row;
    const afterSeq = after?.node_instance_id === node_instance_id ? after.seq : 0;
    return (await unpackRecords(row))
      .filter(mayMatch)
      .map(parseLine)
      .filter((line) => line.seq > afterSeq && matches(line) && (sinceMs === null || Date.parse(line.at) >= sinceMs))
      .map((line) => ({ node_instance_id, ...line }));
  };

  const isDone = () =>
    items.length >= limit || readBytes >= (filter.max_read_bytes ?? maxReadBytes) || filter.isDisconnected?.() === true;
  while (!isEnd && !isDone()) {
    const rows = await readNextChunks(db, filter, lastRead);
    for (const row of rows) {
      if (isDone()) break;
      readBytes += Math.max(row.raw_bytes, minChunkBytes);
      lastRead = { node_instance_id: row.node_instance_id, seq: Number(row.last_seq) };
      newest ??= lastRead;
      const lines = await matchingLines(row);
      if (tail) items.unshift(...lines.slice(-(limit - items.length)));
      else items.push(...lines.slice(0, limit - items.length));
      isEnd = rows.length < chunksAtOnce && row === rows.at(-1);
    }
    isEnd ||= rows.length === 0;
  }
  const last = items.at(-1);
  const isFull = !tail && items.length >= limit && last;
  const end = tail ? newest : isFull ? { node_instance_id: last.node_instance_id, seq: last.seq } : lastRead;
  return {
    items,
    next_cursor: end ? formatLogCursor(end) : null,
    continue_at: !isEnd && items.length < limit && lastRead ? formatLogCursor(lastRead) : null,
  };
}

/** Reads the last lines of an instance, oldest first. */
export async function readLastLines(db: Queryable, instance: NodeInstanceId, limit = 200): Promise<string[]> {
  const page = await readLines(db, { instance, tail: true, visibility: wholeFleet, limit });
  return page.items.map(({ line }) => line);
}

/** Reads the number of the last stored line of an instance, or 0 if it has none. */
export async function readLastStoredSeq(db: Queryable, instance: NodeInstanceId): Promise<number> {
  const [end] = await db.query<{ last_seq: string }>('select last_seq from node_log_ends where node_instance_id = $1', [
    instance,
  ]);
  return Number(end?.last_seq ?? 0);
}

const formatLogCursor = ({ node_instance_id, seq }: LogPosition): string => `${node_instance_id}-${seq}`;

export function parseLogCursor(text: string): LogPosition | undefined {
  const match = /^(.+)-(\d{1,16})$/.exec(text);
  return match?.[1] && match[2] ? { node_instance_id: match[1], seq: Number(match[2]) } : undefined;
}
