/** Reads the stored logs of nodes, kept by instance: page by page, the last lines, or a search. */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import type { LogLine, LogPage } from '../../contract/node.ts';
import { type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { parameters } from '../pg/walk.ts';
import { ofOwnAllocation } from '../visibility.ts';
import { lineOf, type PackedContent, recordsOf } from './log-chunks.ts';

export interface LogPosition {
  node_instance_id: string;
  seq: number;
}

export interface LogFilter {
  /** All instances of the node; without a node, `instance` alone. */
  node_id?: string;
  instance?: string;
  allocation_id?: string;
  since?: string;
  q?: string;
  tail?: boolean;
  after?: LogPosition;
  /** Continues a search for the last lines. */
  before?: LogPosition;
  visibility: Visibility;
  limit: number;
  /** How much one call reads before it returns where it stopped. */
  max_read_bytes?: number;
  /** Whether the caller has disconnected; reading then stops. */
  gone?(): boolean;
}

interface ChunkRow extends PackedContent {
  node_instance_id: string;
  last_seq: string;
  raw_bytes: number;
}

/** A search reads many chunks; a few at a time keep memory small and let other queries in. */
const chunksAtOnce = 16;

/**
 * A call reads this much at most. A small chunk counts as `minChunkBytes`, because it has a cost
 * too.
 */
const maxReadBytes = 32 * 1024 * 1024;
const minChunkBytes = 16 * 1024;

/** The next chunks after a position, or before it for the last lines. */
function nextChunks(db: Queryable, filter: LogFilter, from: LogPosition | undefined): Promise<ChunkRow[]> {
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

/** `may` tests a record before it is parsed, `does` its line. */
function searchFor(q: string | undefined) {
  if (!q) return { may: () => true, does: () => true };
  const wanted = q.toLowerCase();
  const written = JSON.stringify(wanted).slice(1, -1);
  return {
    may: (record: string) => record.toLowerCase().includes(written),
    does: ({ line }: ShippedLine) => line.toLowerCase().includes(wanted),
  };
}

export async function readLines(db: Queryable, filter: LogFilter): Promise<LogPage> {
  const { may, does } = searchFor(filter.q);
  const sinceMs = filter.since ? Date.parse(filter.since) : null;
  const { after, limit, tail = false } = filter;
  const items: LogLine[] = [];
  /** Read up to here, even if nothing was found; the next call continues after it. */
  let read: LogPosition | undefined;
  let newest: LogPosition | undefined;
  let readBytes = 0;
  let isEnd = false;

  const wantedOf = async (row: ChunkRow): Promise<LogLine[]> => {
    const { node_instance_id } = row;
    const known = after?.node_instance_id === node_instance_id ? after.seq : 0;
    return (await recordsOf(row))
      .filter(may)
      .map(lineOf)
      .filter((line) => line.seq > known && does(line) && (sinceMs === null || Date.parse(line.at) >= sinceMs))
      .map((line) => ({ node_instance_id, ...line }));
  };

  const isDone = () =>
    items.length >= limit || readBytes >= (filter.max_read_bytes ?? maxReadBytes) || filter.gone?.() === true;
  while (!isEnd && !isDone()) {
    const rows = await nextChunks(db, filter, read);
    for (const row of rows) {
      if (isDone()) break;
      readBytes += Math.max(row.raw_bytes, minChunkBytes);
      read = { node_instance_id: row.node_instance_id, seq: Number(row.last_seq) };
      newest ??= read;
      const found = await wantedOf(row);
      if (tail) items.unshift(...found.slice(-(limit - items.length)));
      else items.push(...found.slice(0, limit - items.length));
      isEnd = rows.length < chunksAtOnce && row === rows.at(-1);
    }
    isEnd ||= rows.length === 0;
  }
  const last = items.at(-1);
  const full = !tail && items.length >= limit && last;
  const end = tail ? newest : full ? { node_instance_id: last.node_instance_id, seq: last.seq } : read;
  return {
    items,
    next_cursor: end ? formatLogCursor(end) : null,
    continue_at: !isEnd && items.length < limit && read ? formatLogCursor(read) : null,
  };
}

/** The last lines of an instance, oldest first. */
export async function lastLines(db: Queryable, instance: NodeInstanceId, limit = 200): Promise<string[]> {
  const page = await readLines(db, { instance, tail: true, visibility: wholeFleet, limit });
  return page.items.map(({ line }) => line);
}

/** The number of the last stored line of an instance, or 0. */
export async function lastStoredSeq(db: Queryable, instance: NodeInstanceId): Promise<number> {
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
