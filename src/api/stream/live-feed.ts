/**
 * The live feed of one replica: facts from the evidence tail, joined once with the current state of
 * what they are about, and shown to all readers in commit order. The database cost does not grow
 * with readers.
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

/** Since the start of this replica. Seconds are summed over batches. */
export interface FeedFigures extends AudienceFigures {
  batches: number;
  facts: number;
  /** Readers dropped because they did not keep up. */
  dropped: number;
  /** From the time of a fact until the tail read it. */
  tail_seconds: number;
  /** Waiting for more facts of the same batch. Named as the label of its metric. */
  gather_seconds: number;
  join_seconds: number;
}

export interface LiveFeed {
  /** Adds a reader of everything from now on. Returns how to remove it. */
  add(reader: StreamReader): () => void;
  readers(): number;
  /**
   * Every fact up to here was shown or is being shown; a reader that starts here gets the next
   * batch whole.
   */
  position(): string;
  noteDropped(): void;
  figures(): FeedFigures;
  /** The same join, for facts read from the store to catch up. */
  join(facts: Evidence[]): Promise<FeedBatch>;
  stop(): void;
}

/**
 * Delay that batches facts, to save queries and socket writes; people do not notice it. It follows
 * the time that the last batch took, within bounds: batches that exceed a socket's buffer are
 * slower than more batches.
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
  const spent = { batches: 0, facts: 0, dropped: 0, tail_seconds: 0, gather_seconds: 0, join_seconds: 0 };
  let pending: Evidence[] = [];
  let position = '';
  let pendingSinceMs = 0;
  let restMs = batchMs.min;
  let scheduled: (() => void) | undefined;
  let delivering = false;

  const joinIds = async (ids: Record<'nodes' | 'allocations' | 'operations', string[]>) => {
    const at = now(clock);
    const [nodes, allocations, operations] = await Promise.all([
      // One read for all readers of the stream; stream-events.ts filters for each of them.
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
    delivering = true;
    const facts = pending;
    pending = [];
    position = facts.at(-1)?.cursor ?? position;
    const sinceMs = pendingSinceMs;
    const beganMs = clock.monotonicMs();
    try {
      const batch = await join(facts);
      const joinedMs = clock.monotonicMs();
      await audience.show(batch);
      const shownMs = clock.monotonicMs();
      restMs = Math.min(Math.max(shownMs - beganMs, batchMs.min), batchMs.max);
      spent.batches++;
      spent.facts += facts.length;
      spent.gather_seconds += (beganMs - sinceMs) / 1000;
      spent.join_seconds += (joinedMs - beganMs) / 1000;
      if (pending.length > 0) schedule(restMs);
    } catch (error) {
      options.onError(error);
      pending = [...facts, ...pending];
      schedule(retryMs);
    }
    delivering = false;
  };

  const schedule = (ms: number) => {
    scheduled = clock.after(ms, () => {
      scheduled = undefined;
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
      const batch = { ...joined, facts: [], operations, moved: [...operations.keys()] };
      await audience.show(batch);
    },
  });

  const unsubscribe = tail.subscribeAll((fact) => {
    if (audience.readers() === 0) {
      position = fact.cursor;
      return;
    }
    if (pending.length === 0) {
      pendingSinceMs = clock.monotonicMs();
      spent.tail_seconds += Math.max(0, clock.nowMs() - Date.parse(fact.at)) / 1000;
    }
    pending.push(fact);
    if (!scheduled && !delivering) schedule(restMs);
  });

  return {
    join,
    add: (reader) => audience.add(reader),
    readers: () => audience.readers(),
    position: () => position || tail.position(),
    noteDropped() {
      spent.dropped++;
    },
    figures: () => ({ ...audience.figures(), ...spent }),
    stop() {
      unsubscribe();
      stopTicking();
      scheduled?.();
    },
  };
}
