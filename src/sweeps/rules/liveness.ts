/** `liveness`: ready, degraded → offline after too long a silence; → degraded where a probe is still answered. */
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { heardThrough } from '../../lifecycle/brake/brake.ts';
import { type LivenessVerdict, silentFrom } from '../../lifecycle/deadlines/liveness.ts';
import { holdNodes } from '../../store/supervision/brake.ts';
import { slowestReplica } from '../../store/supervision/ingest.ts';
import { countSilentNodes, lockSilentNodes, nextSilentAt, type SilentNode } from '../../store/supervision/silent.ts';
import { ownerOfRefusal, refusedInWords } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { type Verdict, verdictSweep } from '../runner/verdict-sweep.ts';

/** A replica that lags less than this has only not had its turn yet. */
const worthHoldingSeconds = 5;
const settlesInSeconds = 0.25;

/** Well below what is worth holding for, so that a replica at the threshold does not hold and let go by turns. */
export const hasCaughtUp = (heard: Date, now: Date): boolean => secondsBetween(heard, now) < worthHoldingSeconds / 2;

const reasons: Record<'offline' | 'degraded', (silent: string) => string> = {
  offline: (silent) => `it has been silent for ${silent}`,
  degraded: (silent) => `it has been silent for ${silent}, but it answers its probe`,
};

/** In whole seconds, rounded apart: what was too long must not read as just enough. */
const silenceOf = ({ last_seen_at, stale_seconds }: SilentNode, now: Date) =>
  `${Math.ceil(secondsBetween(last_seen_at, now))} s (allowed: ${Math.floor(stale_seconds)} s)`;

function verdictOn(node: SilentNode, to: 'offline' | 'degraded', refused: string | null, now: Date): Verdict {
  const silent = silenceOf(node, now);
  return {
    node,
    to,
    reason: refused === null ? reasons[to](silent) : `${refusedInWords(refused)}; none has counted for ${silent}`,
    due_at: silentFrom(node),
    data: { stale_seconds: node.stale_seconds, ...(refused !== null && ownerOfRefusal) },
    moments: { last_seen_at: node.last_seen_at, probe_ok_at: node.probe_ok_at, gap_end: node.gap_end },
  };
}

export function liveness(services: SweepServices): Sweep {
  const { db, environment, suspects, refusals } = services;
  const whyRefused = ({ node_instance_id, last_seen_at }: SilentNode, now: Date) =>
    refusals.why(node_instance_id, last_seen_at, now);
  /** Somebody was silent by the clock, but not everything heard was stored yet: a matter of moments. */
  let unsettled = false;
  /** Those whose time may be up; when it may be for the next one. After a disturbance there may be many more who are silent and still have time. */
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
      // Of those looked at, some have a little time left that only their rows know of.
      const soonest = found.length === 0 ? null : await nextSilentAt(db, found, now);
      const reading = secondsLater(now, unsettled ? settlesInSeconds : suspects.everySeconds());
      return moment(Math.min(soonest?.getTime() ?? Number.POSITIVE_INFINITY, nextDueMs, reading.getTime()));
    },
  });
}

const isDecided = (verdict: LivenessVerdict['verdict']): verdict is 'offline' | 'degraded' =>
  verdict === 'offline' || verdict === 'degraded';
