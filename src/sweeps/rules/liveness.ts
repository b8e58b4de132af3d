/**
 * `liveness`: ready, degraded → offline after too long a silence; → degraded if a probe is still
 * answered.
 */
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { heardThrough } from '../../lifecycle/brake/brake.ts';
import { type LivenessVerdict, staleAt } from '../../lifecycle/deadlines/liveness.ts';
import { holdNodes } from '../../store/supervision/brake.ts';
import { slowestReplica } from '../../store/supervision/ingest-gaps.ts';
import {
  countSilentNodes,
  lockSilentNodes,
  nextSilentAt,
  type SilentNode,
} from '../../store/supervision/silent-nodes.ts';
import { ownerOfRefusal, refusedInWords } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { type Verdict, verdictSweep } from '../runner/verdict-sweep.ts';

/** A smaller lag of a replica is normal and no reason for a hold. */
const worthHoldingSeconds = 5;
const settlesInSeconds = 0.25;

/** Well below the threshold of a hold, so that a replica at the threshold does not flap. */
export const hasCaughtUp = (heard: Date, now: Date): boolean => secondsBetween(heard, now) < worthHoldingSeconds / 2;

const reasons: Record<'offline' | 'degraded', (silent: string) => string> = {
  offline: (silent) => `it has been silent for ${silent}`,
  degraded: (silent) => `it has been silent for ${silent}, but it answers its probe`,
};

/** Rounded in opposite directions, so that an exceeded limit never looks like a met one. */
const silenceOf = ({ last_seen_at, stale_seconds }: SilentNode, now: Date) =>
  `${Math.ceil(secondsBetween(last_seen_at, now))} s (allowed: ${Math.floor(stale_seconds)} s)`;

function verdictOn(node: SilentNode, to: 'offline' | 'degraded', refused: string | null, now: Date): Verdict {
  const silent = silenceOf(node, now);
  return {
    node,
    to,
    reason: refused === null ? reasons[to](silent) : `${refusedInWords(refused)}; none has counted for ${silent}`,
    due_at: staleAt(node),
    data: { stale_seconds: node.stale_seconds, ...(refused !== null && ownerOfRefusal) },
    moments: { last_seen_at: node.last_seen_at, probe_ok_at: node.probe_ok_at, gap_end: node.gap_end },
  };
}

export function liveness(services: SweepServices): Sweep {
  const { db, environment, suspects, refusals } = services;
  const whyRefused = ({ node_instance_id, last_seen_at }: SilentNode, now: Date) =>
    refusals.why(node_instance_id, last_seen_at, now);
  /**
   * A node is silent by the clock, but some heartbeats are not stored yet; this settles within
   * moments.
   */
  let unsettled = false;
  /**
   * The nodes that may be overdue, and when the next one may be. After an outage many more are
   * silent but not yet overdue.
   */
  let found: readonly NodeId[] = [];
  let nextDueMs = Number.POSITIVE_INFINITY;
  return verdictSweep(services, {
    name: 'liveness',
    every_seconds: 5,
    woken_by: (kind) => kind === 'node.held_over',
    async prepare(now) {
      const all = await suspects.at(now);
      const waiting = all.findIndex(({ due_ms }) => due_ms > now.getTime());
      found = (waiting === -1 ? all : all.slice(0, waiting)).map(({ node_id }) => node_id);
      nextDueMs = all[waiting]?.due_ms ?? Number.POSITIVE_INFINITY;
    },
    async find(tx, now, limit, except) {
      unsettled = false;
      const silent = found.length === 0 ? [] : await lockSilentNodes(tx, found, now, limit, except);
      const [first] = silent;
      if (!first) return [];
      const heard = heardThrough(first.stored_through, environment.brake, now);
      const verdicts: Verdict[] = [];
      const unsure: SilentNode[] = [];
      for (const node of silent) {
        const { verdict } = environment.decide.judgeLiveness(node, now, heard);
        if (isDecided(verdict)) verdicts.push(verdictOn(node, verdict, whyRefused(node, now), now));
        else if (verdict === 'unsure') unsure.push(node);
      }
      unsettled = unsure.length > 0;
      const lag = secondsBetween(heard, now);
      if (lag > worthHoldingSeconds) {
        const held_until = secondsLater(heard, environment.brake.self_fault_seconds).toISOString();
        const reason = `a replica has not stored what it heard for ${lag.toFixed(0)} s`;
        const hold = { rule: 'liveness', to: 'offline', kind: 'self-fault', hold: 'self-fault', reason } as const;
        await holdNodes(
          tx,
          unsure.map((node) => ({ node, held: { ...hold, since: now.toISOString(), held_until } })),
          now,
        );
      }
      return verdicts;
    },
    async others(tx, now, decided) {
      const known = new Set(decided);
      const rest = found.filter((id) => !known.has(id));
      if (rest.length === 0) return [];
      const heard = heardThrough(await slowestReplica(tx, now), environment.brake, now);
      return countSilentNodes(tx, rest, heard < now ? heard : now);
    },
    async next(now) {
      // Some of the inspected nodes have a little time left, which only their rows show.
      const soonest = found.length === 0 ? null : await nextSilentAt(db, found, now);
      const reading = secondsLater(now, unsettled ? settlesInSeconds : suspects.everySeconds());
      return moment(Math.min(soonest?.getTime() ?? Number.POSITIVE_INFINITY, nextDueMs, reading.getTime()));
    },
  });
}

const isDecided = (verdict: LivenessVerdict['verdict']): verdict is 'offline' | 'degraded' =>
  verdict === 'offline' || verdict === 'degraded';
