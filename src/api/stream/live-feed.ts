/**
 * The live feed of one replica. Facts from the evidence tail are joined once with the current rows
 * that they are about, and sent to all readers in commit order. The cost for the database does not
 * grow with the number of readers.
 */
import type { Clock } from '../../base/clock.ts';
import { now } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { EvidenceTail } from '../../store/evidence/tail.ts';
import { readOperations } from '../../store/operations/operations.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { readAllocations } from '../../store/rows/allocations.ts';
import { readNodes } from '../../store/rows/nodes.ts';
import type { FeedBatch } from './feed-batch.ts';
import { startProgressTicks } from './progress-ticks.ts';
import { type AudienceFigures, createAudience, type StreamReader } from './stream-audience.ts';

/** Figures since the start of this replica. Seconds are summed over batches. */
export interface FeedFigures extends AudienceFigures {
  batches: number;
  facts: number;
  /** Readers dropped because they did not keep up. */
  dropped: number;
  /** From the time of the first fact of a batch until the tail read it. */
  tail_seconds: number;
  /** Time spent waiting for more facts of a batch. The name is the label of the metric. */
  gather_seconds: number;
  join_seconds: number;
}

export interface LiveFeed {
  /** Adds a reader, which gets every later batch. Returns a function that removes it. */
  add(reader: StreamReader): () => void;
  readers(): number;
  /**
   * Facts up to this cursor were sent or are being sent. A reader that starts here gets the whole
   * next batch.
   */
  position(): string;
  noteDropped(): void;
  figures(): FeedFigures;
  /** Joins facts that a reader read from the store to catch up. */
  join(facts: Evidence[]): Promise<FeedBatch>;
  stop(): void;
}

/**
 * Facts wait this long for others of the same batch, which saves queries and socket writes. The
 * delay follows the duration of the last batch, but only up to the maximum: batches that exceed a
 * socket's buffer take longer than several small ones.
 */
const batchMs = { min: 5, max: 10 };
const retryMs = 1_000;

const idsOf = (facts: Evidence[], key: 'node_id' | 'allocation_id' | 'workflow_id') => [
  ...new Set(facts.flatMap((fact) => fact[key] ?? [])),
];

export function createLiveFeed(options: {
  db: Queryable;
  tail: EvidenceTail;
  clock: Clock;
  onError: (error: unknown) => void;
}): LiveFeed {
  const { db, tail, clock } = options;
  const audience = createAudience(clock);
  const totals = { batches: 0, facts: 0, dropped: 0, tail_seconds: 0, gather_seconds: 0, join_seconds: 0 };
  let pending: Evidence[] = [];
  let position = '';
  let pendingSinceMs = 0;
  let delayMs = batchMs.min;
  let cancelScheduled: (() => void) | undefined;
  let isDelivering = false;
  let isStopped = false;

  const joinIds = async (ids: Record<'nodes' | 'allocations' | 'operations', string[]>) => {
    const at = now(clock);
    const [nodes, allocations, operations] = await Promise.all([
      // One read serves all readers of the stream; stream-events.ts filters for each of them.
      readNodes(db, ids.nodes, wholeFleet),
      readAllocations(db, ids.allocations, wholeFleet, at),
      readOperations(db, ids.operations, wholeFleet, at),
    ]);
    return {
      nodes: new Map(nodes.map((node) => [node.node_id, node])),
      allocations: new Map(allocations.map((allocation) => [allocation.allocation_id, allocation])),
      operations: new Map(operations.map((operation) => [operation.workflow_id, operation])),
    };
  };

  const join = async (facts: Evidence[]): Promise<FeedBatch> => ({
    facts,
    ...(await joinIds({
      nodes: idsOf(facts, 'node_id'),
      allocations: idsOf(facts, 'allocation_id'),
      operations: idsOf(facts, 'workflow_id'),
    })),
  });

  /**
   * Delivers one batch at a time and retries a failed one first: readers skip facts that arrive out
   * of order.
   */
  const deliver = async () => {
    isDelivering = true;
    const facts = pending;
    pending = [];
    position = facts.at(-1)?.cursor ?? position;
    const sinceMs = pendingSinceMs;
    const startedMs = clock.monotonicMs();
    try {
      const batch = await join(facts);
      const joinedMs = clock.monotonicMs();
      await audience.send(batch);
      const sentMs = clock.monotonicMs();
      delayMs = Math.min(Math.max(sentMs - startedMs, batchMs.min), batchMs.max);
      totals.batches++;
      totals.facts += facts.length;
      totals.gather_seconds += (startedMs - sinceMs) / 1000;
      totals.join_seconds += (joinedMs - startedMs) / 1000;
      if (pending.length > 0) schedule(delayMs);
    } catch (error) {
      options.onError(error);
      pending = [...facts, ...pending];
      schedule(retryMs);
    }
    isDelivering = false;
  };

  const schedule = (ms: number) => {
    // A delivery that was under way at the stop must not start the next one.
    if (isStopped) return;
    cancelScheduled = clock.after(ms, () => {
      cancelScheduled = undefined;
      void deliver();
    });
  };

  const stopTicking = startProgressTicks({
    db,
    clock,
    hasReaders: () => audience.readers() > 0,
    onError: options.onError,
    async deliver(moved) {
      const ids = (key: 'node_id' | 'allocation_id') => moved.flatMap((each) => each[key] ?? []);
      const joined = await joinIds({ nodes: ids('node_id'), allocations: ids('allocation_id'), operations: [] });
      const operations = new Map(moved.map((each) => [each.workflow_id, each]));
      const batch = { ...joined, facts: [], operations, progressedIds: [...operations.keys()] };
      await audience.send(batch);
    },
  });

  // Readers resume from their cursors, and the stream begins with `reset` if those are lost.
  tail.whenHistoryChanged(() => {
    pending = [];
    position = '';
    audience.endAll();
  });
  const unsubscribe = tail.subscribeAll((fact) => {
    if (audience.readers() === 0) {
      position = fact.cursor;
      return;
    }
    if (pending.length === 0) {
      pendingSinceMs = clock.monotonicMs();
      totals.tail_seconds += Math.max(0, clock.nowMs() - Date.parse(fact.at)) / 1000;
    }
    pending.push(fact);
    if (!cancelScheduled && !isDelivering) schedule(delayMs);
  });

  return {
    join,
    add: (reader) => audience.add(reader),
    readers: () => audience.readers(),
    position: () => position || tail.position(),
    noteDropped() {
      totals.dropped++;
    },
    figures: () => ({ ...audience.figures(), ...totals }),
    stop() {
      isStopped = true;
      unsubscribe();
      stopTicking();
      cancelScheduled?.();
    },
  };
}
