/**
 * `liveness`: moves a ready or degraded node to offline when its last heartbeat is too old, or to
 * degraded if the machine still answers its probe.
 */
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { storedThroughOf } from '../../lifecycle/brake/brake.ts';
import { type LivenessVerdict, staleAt } from '../../lifecycle/deadlines/liveness.ts';
import { holdNodes } from '../../store/supervision/brake.ts';
import { readStoredThrough } from '../../store/supervision/ingest-gaps.ts';
import {
  countSilentNodes,
  lockSilentNodes,
  readNextSilentAt,
  type SilentNode,
} from '../../store/supervision/silent-nodes.ts';
import { describeRefusal, ownerOfRefusal } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { type Verdict, verdictSweep } from '../runner/verdict-sweep.ts';

/** If a replica is further behind with storing heartbeats, verdicts of silence are held. */
const maxLagSeconds = 5;
/** After this pause, other replicas have usually stored the heartbeats that a verdict waits for. */
const recheckSeconds = 0.25;

/** Half the threshold of a hold, so that a replica near the threshold does not flap. */
export const hasCaughtUp = (storedThrough: Date, now: Date): boolean =>
  secondsBetween(storedThrough, now) < maxLagSeconds / 2;

const reasons: Record<'offline' | 'degraded', (silence: string) => string> = {
  offline: (silence) => `no heartbeat arrived for ${silence}`,
  degraded: (silence) => `no heartbeat arrived for ${silence}, but the machine answered its probe`,
};

/**
 * Rounds the silence up and the limit down, so that the two numbers always differ: `30 s (allowed:
 * 30 s)` would look as if the limit was met.
 */
const silenceOf = ({ last_seen_at, stale_seconds }: SilentNode, now: Date) =>
  `${Math.ceil(secondsBetween(last_seen_at, now))} s (allowed: ${Math.floor(stale_seconds)} s)`;

function verdictOn(node: SilentNode, to: 'offline' | 'degraded', refusal: string | null, now: Date): Verdict {
  const silence = silenceOf(node, now);
  return {
    node,
    to,
    reason: refusal === null ? reasons[to](silence) : `${describeRefusal(refusal)}; none was accepted for ${silence}`,
    due_at: staleAt(node),
    data: { stale_seconds: node.stale_seconds, ...(refusal !== null && ownerOfRefusal) },
    moments: { last_seen_at: node.last_seen_at, probe_ok_at: node.probe_ok_at, gap_end: node.gap_end },
  };
}

export function liveness(services: SweepServices): Sweep {
  const { db, environment, suspects, refusals } = services;
  const findRefusal = ({ node_instance_id, last_seen_at }: SilentNode, now: Date) =>
    refusals.findReason(node_instance_id, last_seen_at, now);
  /** Whether a node looks silent only because some heartbeats may not be stored yet. */
  let isAwaitingHeartbeats = false;
  /** Set by `prepare`: the nodes that may be overdue now, and when the next node may be. */
  let overdue: readonly NodeId[] = [];
  let nextDueMs = Number.POSITIVE_INFINITY;
  return verdictSweep(services, {
    name: 'liveness',
    every_seconds: 5,
    isWokenBy: (kind) => kind === 'node.held_over',
    async prepare(now) {
      const suspectedNodes = await suspects.list(now);
      const firstWaiting = suspectedNodes.findIndex(({ due_ms }) => due_ms > now.getTime());
      overdue = (firstWaiting === -1 ? suspectedNodes : suspectedNodes.slice(0, firstWaiting)).map(
        ({ node_id }) => node_id,
      );
      nextDueMs = suspectedNodes[firstWaiting]?.due_ms ?? Number.POSITIVE_INFINITY;
    },
    async find(tx, now, limit, except) {
      isAwaitingHeartbeats = false;
      const silent = overdue.length === 0 ? [] : await lockSilentNodes(tx, overdue, now, limit, except);
      const [first] = silent;
      if (!first) return [];
      const storedThrough = storedThroughOf(first.stored_through, environment.brake, now);
      const verdicts: Verdict[] = [];
      const unsure: SilentNode[] = [];
      for (const node of silent) {
        const { verdict } = environment.decide.judgeLiveness(node, now, storedThrough);
        if (isDecided(verdict)) verdicts.push(verdictOn(node, verdict, findRefusal(node, now), now));
        else if (verdict === 'unsure') unsure.push(node);
      }
      isAwaitingHeartbeats = unsure.length > 0;
      const lag = secondsBetween(storedThrough, now);
      if (lag > maxLagSeconds) {
        const held_until = secondsLater(storedThrough, environment.brake.self_fault_seconds).toISOString();
        const reason = `a replica has stored no heartbeats for ${lag.toFixed(0)} s`;
        const hold = { rule: 'liveness', to: 'offline', kind: 'self-fault', hold: 'self-fault', reason } as const;
        await holdNodes(
          tx,
          unsure.map((node) => ({ node, held: { ...hold, since: now.toISOString(), held_until } })),
          now,
        );
      }
      return verdicts;
    },
    async countOthers(tx, now, found) {
      const foundIds = new Set(found);
      const others = overdue.filter((id) => !foundIds.has(id));
      if (others.length === 0) return [];
      const storedThrough = storedThroughOf(await readStoredThrough(tx, now), environment.brake, now);
      return countSilentNodes(tx, others, storedThrough < now ? storedThrough : now);
    },
    async findNextDue(now) {
      // The list of suspects may be older than the rows, so read from the rows when a node is due.
      const soonest = overdue.length === 0 ? null : await readNextSilentAt(db, overdue, now);
      const recheckAt = secondsLater(now, isAwaitingHeartbeats ? recheckSeconds : suspects.everySeconds());
      return moment(Math.min(soonest?.getTime() ?? Number.POSITIVE_INFINITY, nextDueMs, recheckAt.getTime()));
    },
  });
}

const isDecided = (verdict: LivenessVerdict['verdict']): verdict is 'offline' | 'degraded' =>
  verdict === 'offline' || verdict === 'degraded';
