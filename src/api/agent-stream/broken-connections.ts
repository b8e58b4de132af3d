/**
 * Records broken connections as evidence. A break never causes a verdict: the liveness rule judges
 * only heartbeats and probes. A break beyond the write quota is dropped.
 */
import { type Clock, now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { type Fact, recordEvidence } from '../../store/evidence/evidence.ts';
import type { Database } from '../../store/pg/database.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { createRateLimitedNotices } from '../http/rate-limited-notices.ts';
import type { WriteLimits } from '../limits/quotas/write-limits.ts';
import { instanceWriter, relayWriter } from '../limits/quotas/writers.ts';
import type { ConnectionEnd } from './wire.ts';

export type BrokenConnection = ConnectionEnd & { correlation_id: CorrelationId } & (
    | { of: 'agent'; node_id: NodeId; node_instance_id: NodeInstanceId }
    | { of: 'relay'; actor: Actor }
  );

const batchMs = 500;
/** While this many breaks wait to be written, further ones are only counted. */
const maxWaiting = 2_000;
/**
 * Flapping connections end sooner, and so do those that the server closes after a minute of
 * silence.
 */
export const longLivedSeconds = 120;

export interface BrokenConnections {
  report(connection: BrokenConnection): void;
  stop(): Promise<void>;
}

export function createBrokenConnections(options: {
  db: Database;
  writeLimits: Pick<WriteLimits, 'tryCharge'>;
  clock: Clock;
  onError: (error: unknown) => void;
}): BrokenConnections {
  const { db, writeLimits, clock, onError } = options;
  const notices = createRateLimitedNotices(clock);
  let waiting: { fact: Fact; undo: () => void }[] = [];
  let overflow = 0;
  let cancel: (() => void) | undefined;
  let writing: Promise<void> = Promise.resolve();

  const write = async (facts: Fact[], unrecorded: number) => {
    if (unrecorded > 0)
      facts.push({
        at: now(clock),
        layer: 'transport',
        kind: 'connection.broken',
        summary: `${unrecorded} more connections broke at the same time`,
        data: { connections: unrecorded },
      });
    await db.transaction(async (tx) => {
      await fillAllocationIds(tx, facts);
      await recordEvidence(tx, facts);
    });
  };
  const flush = () => {
    cancel?.();
    cancel = undefined;
    const [breaks, unrecorded] = [waiting, overflow];
    if (breaks.length === 0 && unrecorded === 0) return;
    waiting = [];
    overflow = 0;
    const facts = breaks.map(({ fact }) => fact);
    writing = writing
      .then(() => write(facts, unrecorded))
      .catch((error) => {
        for (const { undo } of breaks) undo();
        overflow += unrecorded;
        onError(error);
      });
  };

  return {
    report({ correlation_id, lasted_seconds, why, ...peer }) {
      const actor = peer.of === 'agent' ? peer.node_instance_id : peer.actor.id;
      // A rack depends on its relay, so each break of a long-lived relay connection is recorded.
      // Other breaks are rate limited: a network that cuts all agents every few minutes would write
      // too much.
      const isLongLived = peer.of === 'relay' && lasted_seconds >= longLivedSeconds;
      const notice = { actor, kind: 'connection.broken', target: null };
      const entry = isLongLived ? {} : notices.admit(notice);
      if (!entry) return;
      const undo = () => {
        if (!isLongLived) notices.undo(notice, entry);
      };
      if (waiting.length >= maxWaiting) {
        overflow++;
        undo();
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
      if (!writeLimits.tryCharge(peer.of === 'agent' ? instanceWriter(peer) : relayWriter(peer.actor), [fact])) {
        undo();
        return;
      }
      waiting.push({ fact, undo });
      cancel ??= clock.after(batchMs, flush);
    },
    async stop() {
      flush();
      await writing;
    },
  };
}
