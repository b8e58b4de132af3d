/**
 * The live feed of one replica: facts from the evidence tail, joined once with the current shape of what they are about,
 * and fanned out in memory, in commit order. A thousand readers cost the database no more than one.
 */
import type { Clock } from '../base/clock.ts';
import { now } from '../base/clock.ts';
import type { Allocation } from '../contract/allocation.ts';
import type { Evidence } from '../contract/evidence.ts';
import type { Node } from '../contract/node.ts';
import type { Operation } from '../contract/operation.ts';
import { readAllocations } from '../store/allocations.ts';
import type { Queryable } from '../store/database.ts';
import { readNodes } from '../store/nodes.ts';
import { readOperations } from '../store/operations.ts';
import type { EvidenceTail } from '../store/tail.ts';
import { startProgressTicks } from './progress-ticks.ts';

export interface FeedBatch {
  facts: Evidence[];
  nodes: Map<string, Node>;
  allocations: Map<string, Allocation>;
  operations: Map<string, Operation>;
  /** Operations whose progress moved with the time alone; no fact tells of it. */
  moved?: string[];
}

export interface LiveFeed {
  subscribe(listener: (batch: FeedBatch) => void): () => void;
  readers(): number;
  /** The same joining, for facts read from the store to catch up. */
  join(facts: Evidence[]): Promise<FeedBatch>;
  stop(): void;
}

/** Facts that come together are joined together; a person does not notice, the database does. */
const gatherMs = 10;
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
  const listeners = new Set<(batch: FeedBatch) => void>();
  let gathered: Evidence[] = [];
  let scheduled: (() => void) | undefined;
  let delivering = false;

  const joinIds = async (ids: Record<'nodes' | 'allocations' | 'operations', string[]>) => {
    const at = now(clock);
    const [nodes, allocations, operations] = await Promise.all([
      readNodes(db, ids.nodes, null),
      readAllocations(db, ids.allocations, null, at),
      readOperations(db, ids.operations, null, at),
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

  /** One batch after the other, and one that failed again before the next: readers drop what comes out of order. */
  const deliver = async () => {
    delivering = true;
    while (gathered.length > 0 && !scheduled) {
      const facts = gathered;
      gathered = [];
      try {
        const batch = await join(facts);
        for (const listener of listeners) listener(batch);
      } catch (error) {
        options.onError(error);
        gathered = [...facts, ...gathered];
        schedule(retryMs);
      }
    }
    delivering = false;
  };

  const schedule = (ms: number) => {
    scheduled = clock.after(ms, () => {
      scheduled = undefined;
      if (!delivering) void deliver();
    });
  };

  const stopTicking = startProgressTicks({
    db,
    clock,
    hasReaders: () => listeners.size > 0,
    onError: options.onError,
    async deliver(moved) {
      const ids = (key: 'node_id' | 'allocation_id') => moved.flatMap((each) => each[key] ?? []);
      const joined = await joinIds({ nodes: ids('node_id'), allocations: ids('allocation_id'), operations: [] });
      const operations = new Map(moved.map((each) => [each.workflow_id, each]));
      const batch = { ...joined, facts: [], operations, moved: [...operations.keys()] };
      for (const listener of listeners) listener(batch);
    },
  });

  const unsubscribe = tail.subscribe((fact) => {
    if (listeners.size === 0) return;
    gathered.push(fact);
    if (!scheduled && !delivering) schedule(gatherMs);
  });

  return {
    join,
    readers: () => listeners.size,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    stop() {
      unsubscribe();
      stopTicking();
      scheduled?.();
    },
  };
}
