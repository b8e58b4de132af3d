/**
 * Records broken connections as evidence. They never are a verdict: heartbeats tell whether a
 * machine lives. The first break of an instance is a row; repeats are counted. A relay's connection
 * that had lasted is a row each time, since a rack depends on it; agents are too many for that if
 * something on the network cuts all of them every few minutes. Breaks are written in batches, and
 * beyond a limit only counted.
 */
import { type Clock, now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { type Fact, recordEvidence } from '../../store/evidence/evidence.ts';
import type { Database } from '../../store/pg/database.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { createRateLimitedNotices } from '../http/rate-limited-notices.ts';
import type { OutsideWrites } from '../limits/quotas/outside-writes.ts';
import { instanceWriter, relayWriter } from '../limits/quotas/writers.ts';
import type { ConnectionEnd } from './wire.ts';

export type BrokenConnection = ConnectionEnd & { correlation_id: CorrelationId } & (
    | { of: 'agent'; node_id: NodeId; node_instance_id: NodeInstanceId }
    | { of: 'relay'; actor: Actor }
  );

const batchMs = 500;
const maxWaiting = 2_000;
/**
 * A connection that flaps, or that goes silent and is closed after a minute, does not last this
 * long. One that did is an event of its own, such as a relay's second crash.
 */
export const lastingSeconds = 120;

export interface BrokenConnections {
  report(connection: BrokenConnection): void;
  stop(): Promise<void>;
}

export function createBrokenConnections(options: {
  db: Database;
  outside: Pick<OutsideWrites, 'allows'>;
  clock: Clock;
  onError: (error: unknown) => void;
}): BrokenConnections {
  const { db, outside, clock, onError } = options;
  const notices = createRateLimitedNotices(clock);
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
    report({ correlation_id, lasted_seconds, why, ...peer }) {
      const actor = peer.of === 'agent' ? peer.node_instance_id : peer.actor.id;
      const hadLasted = peer.of === 'relay' && lasted_seconds >= lastingSeconds;
      const notice = { actor, what: 'connection.broken', target: null };
      const entry = hadLasted ? {} : notices.admit(notice);
      if (!entry) return;
      if (waiting.length >= maxWaiting) {
        beyond++;
        return;
      }
      const ids =
        peer.of === 'agent'
          ? { node_id: peer.node_id, node_instance_id: peer.node_instance_id }
          : { actor: peer.actor };
      const fact: Fact = {
        at: now(clock),
        layer: 'transport',
        kind: 'connection.broken',
        summary: `the stream of ${peer.of === 'agent' ? 'the agent' : 'a relay'} broke after ${lasted_seconds} s: ${why}`,
        data: { of: peer.of, lasted_seconds, why, ...entry },
        ...ids,
        correlation_id,
      };
      if (!outside.allows(peer.of === 'agent' ? instanceWriter(peer) : relayWriter(peer.actor), [fact])) {
        if (!hadLasted) notices.undo(notice, entry);
        return;
      }
      waiting.push(fact);
      cancel ??= clock.after(batchMs, flush);
    },
    async stop() {
      flush();
      await writing;
    },
  };
}
