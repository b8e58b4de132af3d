/**
 * Writes the logs of many nodes in batches: lines that arrive while a statement runs are written by
 * the next one. An agent gets its reply when its lines are durable, and keeps them until then.
 */
import type { ForwardedLine } from '../../base/telemetry/log-forwarder.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import { type Database, StoreUnavailable } from '../pg/database.ts';
import type { PoolRedactors } from '../rows/secrets/pool-redactors.ts';
import { type AddedChunk, addChunks, addNewLines, type LogOwner, type ShippedChunk } from './add-log-chunks.ts';
import { packLines, sortLines, toUtc } from './log-chunks.ts';
import { joinLooseChunks, minLooseToJoin } from './log-joining.ts';
import { cutLog } from './log-limit.ts';
import { createLogSecrets } from './log-secrets.ts';

export interface StoredLines extends LogOwner {
  ids: AddedChunk;
  lines: readonly ShippedLine[];
}

/** Converts stored lines to the format of log forwarders. */
export function toForwardedLines({ node_id, node_instance_id, ids, lines }: StoredLines): ForwardedLine[] {
  const { allocation_id, correlation_id, workflow_id } = ids;
  const all = { node_id, node_instance_id, allocation_id, correlation_id, workflow_id };
  const setIds = Object.fromEntries(Object.entries(all).flatMap(([name, id]) => (id === null ? [] : [[name, id]])));
  return lines.map((line) => ({ ...line, ids: setIds }));
}

export interface LogWriter {
  /** Returns the number of the last durable line of the instance. */
  store(owner: LogOwner & { pool: string }, lines: readonly ShippedLine[]): Promise<number>;
  /** Resolves when all pending work is done, including joining chunks and cutting logs. */
  settled(): Promise<void>;
}

export interface LogWriterParts {
  db: Database;
  pool_redactors: PoolRedactors;
  /** The limit for the logs of one node; see `LogSettings`. */
  most_bytes_per_node: number;
  onStored?(stored: StoredLines): void;
  onError(error: unknown): void;
}

interface PendingBatch extends ShippedChunk {
  lines: readonly ShippedLine[];
  resolve(last_seq: number): void;
  reject(error: unknown): void;
}

const maxStatementBytes = 8 * 1024 * 1024;
/** The limit of a node is checked after each addition of this share of it. */
const uncheckedShare = 1 / 16;

export function createLogWriter({
  db,
  pool_redactors,
  most_bytes_per_node,
  onStored,
  onError,
}: LogWriterParts): LogWriter {
  const secrets = createLogSecrets(db);
  const queue: PendingBatch[] = [];
  const compactingNodes = new Set<string>();
  const runningWork = new Set<Promise<unknown>>();
  let writing = false;

  const track = (work: Promise<unknown>) => {
    runningWork.add(work);
    void work.finally(() => runningWork.delete(work));
  };

  /**
   * Removes the oldest batch of each instance from the queue. Returns them sorted by instance, so
   * that replicas do not deadlock.
   */
  const takeBatch = (): PendingBatch[] => {
    const batches = new Map<string, PendingBatch>();
    let bytes = 0;
    for (const each of queue) {
      if (batches.has(each.node_instance_id)) continue;
      bytes += each.chunk.content.length;
      if (bytes > maxStatementBytes && batches.size > 0) break;
      batches.set(each.node_instance_id, each);
    }
    const batch = new Set(batches.values());
    queue.splice(0, queue.length, ...queue.filter((each) => !batch.has(each)));
    return [...batch].sort((a, b) => (a.node_instance_id < b.node_instance_id ? -1 : 1));
  };

  const compact = async ({ node_instance_id, node_id }: LogOwner, ids: AddedChunk) => {
    const isLimitDue = Number(ids.unchecked_bytes) > most_bytes_per_node * uncheckedShare;
    if ((ids.loose_chunks < minLooseToJoin && !isLimitDue) || compactingNodes.has(node_id)) return;
    compactingNodes.add(node_id);
    try {
      if (ids.loose_chunks >= minLooseToJoin) await joinLooseChunks(db, node_instance_id);
      if (isLimitDue) await cutLog(db, node_id, most_bytes_per_node);
    } catch (error) {
      // The counters in the database stay, so the next write tries again.
      onError(error);
    } finally {
      compactingNodes.delete(node_id);
    }
  };

  const finish = (
    pending: PendingBatch,
    last_seq: number,
    ids: AddedChunk | undefined,
    lines: readonly ShippedLine[],
  ) => {
    pending.resolve(last_seq);
    if (!ids) return;
    onStored?.({ node_id: pending.node_id, node_instance_id: pending.node_instance_id, ids, lines });
    track(compact(pending, ids));
  };

  const writeOne = async (pending: PendingBatch) => {
    try {
      const result = await addNewLines(db, pending, pending.lines);
      finish(pending, result.last_seq, result.added, result.fresh);
    } catch (error) {
      pending.reject(error);
    }
  };

  const writeBatch = async (batch: PendingBatch[]) => {
    let added: AddedChunk[] = [];
    try {
      added = await addChunks(db, batch);
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        for (const { reject } of batch) reject(error);
        return;
      }
      // Write each batch alone below, so that one bad batch does not block the others.
      onError(error);
    }
    const byInstance = new Map(added.map((each) => [each.node_instance_id, each]));
    for (const pending of batch) {
      const ids = byInstance.get(pending.node_instance_id);
      if (ids) finish(pending, pending.chunk.last_seq, ids, pending.lines);
      else await writeOne(pending);
    }
  };

  const write = async () => {
    if (writing) return;
    writing = true;
    while (queue.length > 0) await writeBatch(takeBatch());
    writing = false;
  };

  return {
    async store({ node_id, node_instance_id, pool }, shipped) {
      const normalized = sortLines(shipped).map(({ seq, at, stream, line }) => ({ seq, at: toUtc(at), stream, line }));
      const lines = await secrets.redactLines(node_instance_id, normalized, await pool_redactors.of(pool));
      const chunk = await packLines(lines);
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      queue.push({ node_id, node_instance_id, chunk, lines, resolve, reject });
      track(write());
      return promise;
    },
    async settled() {
      while (runningWork.size > 0) await Promise.all(runningWork);
    },
  };
}
