/**
 * Writes the logs of many nodes in batches: lines that arrive while a statement runs go with the
 * next one. An agent gets its reply only once its lines are durable, and keeps them until then.
 */
import type { ForwardedLine } from '../../base/telemetry/log-forwarder.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import { type Database, StoreUnavailable } from '../pg/database.ts';
import type { PoolRedactors } from '../rows/secrets/pool-redactors.ts';
import { type AddedChunk, addChunks, addNewLines, type LogOwner, type ShippedChunk } from './add-log-chunks.ts';
import { inOrder, inUtc, packLines } from './log-chunks.ts';
import { joinLooseChunks, manyLoose } from './log-joining.ts';
import { cutLog } from './log-limit.ts';
import { createLogSecrets } from './log-secrets.ts';

export interface StoredLines extends LogOwner {
  ids: AddedChunk;
  lines: readonly ShippedLine[];
}

/** The format for log forwarders. */
export function forwardedLines({ node_id, node_instance_id, ids, lines }: StoredLines): ForwardedLine[] {
  const { allocation_id, correlation_id, workflow_id } = ids;
  const all = { node_id, node_instance_id, allocation_id, correlation_id, workflow_id };
  const known = Object.fromEntries(Object.entries(all).flatMap(([name, id]) => (id === null ? [] : [[name, id]])));
  return lines.map((line) => ({ ...line, ids: known }));
}

export interface LogWriter {
  /** Returns the number of the last durable line of the instance. */
  store(owner: LogOwner & { pool: string }, lines: readonly ShippedLine[]): Promise<number>;
  /** Resolves when all pending work is done, including joining and cutting. */
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

interface Waiting extends ShippedChunk {
  lines: readonly ShippedLine[];
  resolve(last_seq: number): void;
  reject(error: unknown): void;
}

const maxStatementBytes = 8 * 1024 * 1024;

export function createLogWriter({
  db,
  pool_redactors,
  most_bytes_per_node,
  onStored,
  onError,
}: LogWriterParts): LogWriter {
  const secrets = createLogSecrets(db);
  const queue: Waiting[] = [];
  const tidying = new Set<string>();
  const begun = new Set<Promise<unknown>>();
  let writing = false;

  const track = (work: Promise<unknown>) => {
    begun.add(work);
    void work.finally(() => begun.delete(work));
  };

  /**
   * Takes the oldest batch of each instance, sorted by instance so that replicas do not deadlock.
   */
  const takeBatch = (): Waiting[] => {
    const taken = new Map<string, Waiting>();
    let bytes = 0;
    for (const each of queue) {
      if (taken.has(each.node_instance_id)) continue;
      bytes += each.chunk.content.length;
      if (bytes > maxStatementBytes && taken.size > 0) break;
      taken.set(each.node_instance_id, each);
    }
    const batch = new Set(taken.values());
    queue.splice(0, queue.length, ...queue.filter((each) => !batch.has(each)));
    return [...batch].sort((a, b) => (a.node_instance_id < b.node_instance_id ? -1 : 1));
  };

  const tidy = async ({ node_instance_id, node_id }: LogOwner, ids: AddedChunk) => {
    const isMuch = Number(ids.unchecked_bytes) > most_bytes_per_node / 16;
    if ((ids.loose_chunks < manyLoose && !isMuch) || tidying.has(node_id)) return;
    tidying.add(node_id);
    try {
      if (ids.loose_chunks >= manyLoose) await joinLooseChunks(db, node_instance_id);
      if (isMuch) await cutLog(db, node_id, most_bytes_per_node);
    } catch (error) {
      // The counters stay, so the next write tries again.
      onError(error);
    } finally {
      tidying.delete(node_id);
    }
  };

  const done = (waiting: Waiting, last_seq: number, ids: AddedChunk | undefined, lines: readonly ShippedLine[]) => {
    waiting.resolve(last_seq);
    if (!ids) return;
    onStored?.({ node_id: waiting.node_id, node_instance_id: waiting.node_instance_id, ids, lines });
    track(tidy(waiting, ids));
  };

  const writeOne = async (waiting: Waiting) => {
    try {
      const late = await addNewLines(db, waiting, waiting.lines);
      done(waiting, late.last_seq, late.added, late.fresh);
    } catch (error) {
      waiting.reject(error);
    }
  };

  const writeBatch = async (batch: Waiting[]) => {
    let added: AddedChunk[] = [];
    try {
      added = await addChunks(db, batch);
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        for (const { reject } of batch) reject(error);
        return;
      }
      // One bad batch must not block the others: write each alone.
      onError(error);
    }
    const byInstance = new Map(added.map((each) => [each.node_instance_id, each]));
    for (const waiting of batch) {
      const ids = byInstance.get(waiting.node_instance_id);
      if (ids) done(waiting, waiting.chunk.last_seq, ids, waiting.lines);
      else await writeOne(waiting);
    }
  };

  const write = async () => {
    if (writing) return;
    writing = true;
    while (queue.length > 0) await writeBatch(takeBatch());
    writing = false;
  };

  return {
    async store({ node_id, node_instance_id, pool }, given) {
      const written = inOrder(given).map(({ seq, at, stream, line }) => ({ seq, at: inUtc(at), stream, line }));
      const lines = await secrets.redactLines(node_instance_id, written, pool_redactors.of(pool));
      const chunk = await packLines(lines);
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      queue.push({ node_id, node_instance_id, chunk, lines, resolve, reject });
      track(write());
      return promise;
    },
    async settled() {
      while (begun.size > 0) await Promise.all(begun);
    },
  };
}
