/**
 * Replays recorded silences and absences: whether each machine would have become offline sooner,
 * later or never, and whether it would have failed.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import { resolveBudget } from '../deadlines/budgets.ts';
import { effectiveStaleSeconds, heartbeatPolicy } from '../deadlines/heartbeat-policy.ts';
import { earliestReturnAt } from '../deadlines/liveness.ts';
import {
  type Decision,
  type DifferenceKind,
  differenceOf,
  type RecordedDecision,
  type ReplayOutcome,
} from './difference.ts';
import type { RecordedAbsence, ReplayPolicy } from './history.ts';

const round = (seconds: number) => Math.round(seconds * 10) / 10;

/**
 * The stale time of a machine under another policy. A machine that announced an interval keeps it.
 */
export function staleSecondsUnder(stale_seconds: number, inForce: ReplayPolicy, proposed: ReplayPolicy): number {
  const oldPolicy = heartbeatPolicy(inForce.heartbeat);
  const newPolicy = heartbeatPolicy(proposed.heartbeat);
  const implied = stale_seconds > oldPolicy.stale_after_seconds ? stale_seconds / 3 : 0;
  const announced = implied > oldPolicy.interval_seconds ? implied : 0;
  return effectiveStaleSeconds(newPolicy.stale_after_seconds, Math.max(newPolicy.interval_seconds, announced));
}

const budgetOf = (phase: 'offline' | 'rescue', policy: ReplayPolicy): number =>
  resolveBudget({
    phase,
    pool: policy.budgets,
    runtime_class: policy.runtime_class,
    server: policy.server,
    external: policy.external,
  }).seconds;

interface ReplayedAbsence {
  absence: RecordedAbsence;
  /** When the machine would have become offline under the proposed policy. */
  at: Date;
}

const offlineDecision = ({ at, reason }: RecordedAbsence): RecordedDecision => ({ verdict: 'offline', at, reason });

/**
 * When the silence ended; null if it is not known to have ended. A failure does not end it, because
 * the machine is still silent then.
 */
const endOf = ({ returned_at, rescued_at, interrupted_at }: RecordedAbsence): Date | null =>
  returned_at ?? rescued_at ?? interrupted_at;

const endingOf = ({ returned_at, rescued_at }: RecordedAbsence): string =>
  returned_at === null && rescued_at === null ? 'it was taken out of service' : 'it returned';

/** Replays the silence itself, if the stale time changed. */
function replaySilence({ absence, at }: ReplayedAbsence, stale: { before: number; proposed: number }): ReplayOutcome {
  const differs = (kind: DifferenceKind, would_be: Decision): ReplayOutcome => ({
    difference: differenceOf(absence, kind, 'liveness', offlineDecision(absence), would_be),
  });
  const allowed = `allowed: ${round(stale.proposed)} s`;
  const offline = { verdict: 'offline', at, reason: `silent for ${round(stale.proposed)} s (${allowed})` };
  if (at < absence.at) return differs('offline_sooner', offline);
  const end = endOf(absence);
  if (end && end <= at) {
    const after = `${round(secondsBetween(absence.at, end))} s after it became offline`;
    return differs('silence_spared', {
      verdict: 'ready',
      at: null,
      reason: `${endingOf(absence)} ${after} (${allowed})`,
    });
  }
  // A machine that fell silent returns only after its stale time. If it returned right then, its
  // heartbeats may have resumed much earlier.
  const earliestReturn = earliestReturnAt(absence.at, stale.before);
  const mayHaveResumedEarlier =
    absence.returned_at !== null && secondsBetween(earliestReturn, absence.returned_at) < stale.before / 2;
  return mayHaveResumedEarlier
    ? { unknown: { kind: 'returned', node_id: absence.node_id } }
    : differs('offline_later', offline);
}

/** Replays the offline deadline, which counts from the time when the machine became offline. */
function replayDeadline(
  { absence, at }: ReplayedAbsence,
  inForce: ReplayPolicy,
  proposed: ReplayPolicy,
): ReplayOutcome {
  const { given_up, returned_at, interrupted_at, moved_seconds } = absence;
  const budget = budgetOf('offline', proposed);
  if (absence.ended || budget === (absence.budget_seconds ?? budgetOf('offline', inForce))) return undefined;
  const deadline_at = secondsLater(at, budget + moved_seconds);
  const differs = (kind: DifferenceKind, was: RecordedDecision, would_be: Decision, sure = true): ReplayOutcome => ({
    difference: differenceOf(absence, kind, 'offline-deadline', was, would_be, sure),
  });
  const failed = (then: string): Decision => ({
    verdict: 'failed',
    at: deadline_at,
    reason: `offline for ${round(budget)} s${then && `; ${then}`}`,
  });
  if (given_up) {
    const was = { verdict: 'failed', at: given_up.at, reason: given_up.reason };
    const { rescued_at } = absence;
    if (rescued_at && rescued_at <= deadline_at)
      return differs('absent_spared', was, {
        verdict: 'ready',
        at: rescued_at,
        reason: 'it returned before its deadline',
      });
    if (deadline_at < given_up.at) return differs('absent_sooner', was, failed(''));
    return differs('absent_later', was, failed('unless it returns before'), rescued_at !== null);
  }
  const end = returned_at ?? interrupted_at;
  if (end === null || deadline_at >= end) return undefined;
  if (!returned_at) {
    const was = { verdict: 'offline', at: end, reason: endingOf(absence) };
    return differs('absent_sooner', was, failed('before it was taken out of service'));
  }
  const isRescued = returned_at <= secondsLater(deadline_at, budgetOf('rescue', proposed));
  const then = isRescued ? 'it would have been rescued when it returned' : 'it returned after its rescue window';
  return differs('absent_given_up', { verdict: 'ready', at: returned_at, reason: 'it returned' }, failed(then));
}

export function replayAbsence(
  absence: RecordedAbsence,
  inForce: ReplayPolicy,
  proposed: ReplayPolicy,
): ReplayOutcome[] {
  const { stale_seconds } = absence;
  const before = absence.by === 'liveness' ? stale_seconds : null;
  if (before === null) return [replayDeadline({ absence, at: absence.at }, inForce, proposed)];
  const stale = { before, proposed: staleSecondsUnder(before, inForce, proposed) };
  const at = secondsLater(absence.at, stale.proposed - before);
  if (Math.abs(stale.proposed - before) < 0.001) return [replayDeadline({ absence, at }, inForce, proposed)];
  const silence = replaySilence({ absence, at }, stale);
  const isSpared = silence !== undefined && 'difference' in silence && silence.difference.kind === 'silence_spared';
  return isSpared ? [silence] : [silence, replayDeadline({ absence, at }, inForce, proposed)];
}
