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

export interface FeedBatch {
  facts: Evidence[];
  nodes: Map<string, Node>;
  allocations: Map<string, Allocation>;
  operations: Map<string, Operation>;
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

  const join = async (facts: Evidence[]): Promise<FeedBatch> => {
    const at = now(clock);
    const [nodes, allocations, operations] = await Promise.all([
      readNodes(db, idsOf(facts, 'node_id'), null),
      readAllocations(db, idsOf(facts, 'allocation_id'), null, at),
      readOperations(db, idsOf(facts, 'workflow_id'), null, at),
    ]);
    return {
      facts,
      nodes: new Map(nodes.map((node) => [node.node_id, node])),
      allocations: new Map(allocations.map((allocation) => [allocation.allocation_id, allocation])),
      operations: new Map(operations.map((operation) => [operation.workflow_id, operation])),
    };
  };

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
      scheduled?.();
    },
  };
}
