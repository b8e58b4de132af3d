/**
 * A connection that broke is evidence, and never by itself a verdict: whether a machine lives, its beats say. The first of an instance is a
 * row, and repeats are counted. Of a relay, for whom a rack waits, one that had lasted is a row each time; agents are too many for that,
 * where something on the way cuts all of them every few minutes. Many that break at once are written together, and beyond a bound they are
 * only counted.
 */
import { type Clock, now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { type Fact, recordEvidence } from '../../store/evidence/evidence.ts';
import type { Database } from '../../store/pg/database.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { createToldOnce } from '../http/rate-limited-notices.ts';
import type { OutsideWrites } from '../limits/quotas/outside-writes.ts';
import { instanceWriter, relayWriter } from '../limits/quotas/writers.ts';
import type { Ending } from './wire.ts';

export type BrokenConnection = Ending & { correlation_id: CorrelationId } & (
    | { of: 'agent'; node_id: NodeId; node_instance_id: NodeInstanceId }
    | { of: 'relay'; actor: Actor }
  );

const gatherMs = 500;
const mostWaiting = 2_000;
/**
 * A line that flaps, or swallows everything and is closed as silent after a minute, does not hold for so long; what broke after it is an
 * event of its own, like a relay's second death.
 */
export const lastingSeconds = 120;

export interface BrokenConnections {
  tell(connection: BrokenConnection): void;
  stop(): Promise<void>;
}

export function createBrokenConnections(options: {
  db: Database;
  outside: Pick<OutsideWrites, 'allows'>;
  clock: Clock;
  onError: (error: unknown) => void;
}): BrokenConnections {
  const { db, outside, clock, onError } = options;
  const toldOnce = createToldOnce(clock);
  let waiting: Fact[] = [];
  let beyond = 0;
  let cancel: (() => void) | undefined;
  let writing: Promise<void> = Promise.resolve();

  const write = async (facts: Fact[], uncounted: number) => {
    if (uncounted > 0)
      facts.push({
        at: now(clock),
        layer: 'transport',
        kind: 'connection.broken',
        summary: `${uncounted} more connections broke at the same time`,
        data: { connections: uncounted },
      });
    await db.transaction(async (tx) => {
      await fillAllocationIds(tx, facts);
      await recordEvidence(tx, facts);
    });
  };
  const flush = () => {
    cancel?.();
    cancel = undefined;
    const [facts, uncounted] = [waiting, beyond];
    waiting = [];
    beyond = 0;
    if (facts.length > 0) writing = writing.then(() => write(facts, uncounted)).catch(onError);
  };

  return {
    tell({ correlation_id, lasted_seconds, why, ...whose }) {
      const actor = whose.of === 'agent' ? whose.node_instance_id : whose.actor.id;
      const hadLasted = whose.of === 'relay' && lasted_seconds >= lastingSeconds;
      const notice = { actor, what: 'connection.broken', target: null };
      const entry = hadLasted ? {} : toldOnce(notice);
      if (!entry) return;
      if (waiting.length >= mostWaiting) {
        beyond++;
        return;
      }
      const ids =
        whose.of === 'agent'
          ? { node_id: whose.node_id, node_instance_id: whose.node_instance_id }
          : { actor: whose.actor };
      const fact: Fact = {
        at: now(clock),
        layer: 'transport',
        kind: 'connection.broken',
        summary: `the stream of ${whose.of === 'agent' ? 'the agent' : 'a relay'} broke after ${lasted_seconds} s: ${why}`,
        data: { of: whose.of, lasted_seconds, why, ...entry },
        ...ids,
        correlation_id,
      };
      if (!outside.allows(whose.of === 'agent' ? instanceWriter(whose) : relayWriter(whose.actor), [fact])) {
        if (!hadLasted) toldOnce.undo(notice, entry);
        return;
      }
      waiting.push(fact);
      cancel ??= clock.after(gatherMs, flush);
    },
    async stop() {
      flush();
      await writing;
    },
  };
}
