/** Replays recorded boots: when each would have failed, and how certain that is. */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import type { SamplePhase } from '../boots/boot-samples.ts';
import { hasArrived } from '../boots/survival.ts';
import { deadlineAfterAdvance } from '../deadlines/boot-advance.ts';
import { type Budget, resolveBudget } from '../deadlines/budgets.ts';
import type { NodeStatus } from '../model/states.ts';
import {
  type Decision,
  type DifferenceKind,
  differenceOf,
  type RecordedDecision,
  type ReplayOutcome,
} from './difference.ts';
import type { RecordedBoot, ReplayPolicy } from './history.ts';

/** The tolerance for rounding errors when two deadlines are compared. */
const toleranceMs = 1;
/** Sweeps run every few seconds, so a verdict comes up to this long after its deadline. */
const sweepDelaySeconds = 15;

const phaseStatuses: Record<SamplePhase, NodeStatus> = { provision: 'provisioning', start: 'starting' };
const arrivalStatuses: Record<SamplePhase, NodeStatus> = { provision: 'starting', start: 'ready' };
const rules: Record<SamplePhase, string> = { provision: 'provision-deadline', start: 'start-deadline' };

/**
 * The budget under a policy. A requested budget stays, up to the policy's ceiling. A learned budget
 * stays if the policy learns.
 */
function budgetUnder(boot: RecordedBoot, policy: ReplayPolicy, phase: SamplePhase | 'rescue'): Budget {
  const { budget_source, budget_seconds } = boot;
  const isRequested = budget_source === 'allocation';
  const isLearned = budget_source === 'learned' && policy.budgets.policy === 'learned';
  return resolveBudget({
    phase,
    pool: policy.budgets,
    runtime_class: policy.runtime_class,
    server: policy.server,
    requested_seconds: isRequested ? (boot.requested_seconds ?? budget_seconds) : null,
    learned_seconds: isLearned ? budget_seconds : null,
    external: policy.external,
  });
}

/** The final deadline, after all events that moved it. */
function deadlineUnder(boot: RecordedBoot, budget_seconds: number, { budgets }: ReplayPolicy): Date {
  let deadline_at = secondsLater(boot.started_at, budget_seconds);
  let isExtendedByPerson = false;
  for (const event of boot.events) {
    // The boot would have failed before this event.
    if (event.at > deadline_at) break;
    if (event.what === 'moved') {
      deadline_at = secondsLater(deadline_at, event.seconds);
      isExtendedByPerson ||= event.by_person;
      continue;
    }
    const phase = {
      status: boot.phase === 'provision' ? ('provisioning' as const) : ('starting' as const),
      clock_from: boot.started_at,
      budget_seconds,
      deadline_at,
      progress_aware: budgets.progress_aware ?? false,
      silence_seconds: budgets.silence_seconds,
    };
    const next = deadlineAfterAdvance(phase, event.at);
    // Progress must not shorten a deadline that a person extended.
    if (next && !(isExtendedByPerson && next < deadline_at)) deadline_at = next;
  }
  return deadline_at;
}

const isSame = (one: Date, other: Date) => Math.abs(one.getTime() - other.getTime()) <= toleranceMs;
const round = (seconds: number) => Math.round(seconds);

const waitWords = (boot: RecordedBoot, until: Date, { seconds, source }: Budget): string => {
  const waitedSeconds = secondsBetween(boot.started_at, until);
  const moveWords =
    Math.abs(waitedSeconds - seconds) < 0.5 ? '' : `, deadline moved by ${round(waitedSeconds - seconds)} s`;
  return `waited ${round(waitedSeconds)} s, budget of ${round(seconds)} s from ${source}${moveWords}`;
};

interface ReplayedBoot {
  boot: RecordedBoot;
  /** Whether the proposed policy would count progress after the failure, which is not recorded. */
  unseen_advance: boolean;
  /** The deadline under the proposed policy. */
  deadline_at: Date;
  budget: Budget;
  rescue_seconds: number;
}

const arrivalOf = ({ boot }: ReplayedBoot): RecordedDecision => {
  const { phase, started_at, ended_at } = boot;
  const event = phase === 'provision' ? 'it registered' : 'it was ready';
  return {
    verdict: arrivalStatuses[phase],
    at: ended_at,
    reason: `${event} after ${round(secondsBetween(started_at, ended_at))} s`,
  };
};

const interruptionOf = ({ boot }: ReplayedBoot): RecordedDecision => ({
  verdict: phaseStatuses[boot.phase],
  at: boot.ended_at,
  reason: boot.outcome === 'running' ? 'it is still coming up' : 'something else ended it',
});

type GivenUp = NonNullable<RecordedBoot['given_up']>;

const failureOf = (given_up: GivenUp): RecordedDecision => ({
  verdict: 'failed',
  at: given_up.at,
  reason: given_up.reason,
});

const failureUnder = ({ boot, deadline_at, budget }: ReplayedBoot, then: string): Decision => ({
  verdict: 'failed',
  at: deadline_at,
  reason: `${waitWords(boot, deadline_at, budget)}${then && `; ${then}`}`,
});

interface Options {
  rule?: string;
  sure?: boolean;
}

function buildDifference(
  replayed: ReplayedBoot,
  kind: DifferenceKind,
  was: RecordedDecision,
  would_be: Decision,
  options: Options = {},
): ReplayOutcome {
  const { boot, unseen_advance } = replayed;
  const { rule = rules[boot.phase], sure = true } = options;
  const unseen = `${would_be.reason}; its progress after it was given up is not recorded`;
  const decision = unseen_advance ? { ...would_be, reason: unseen } : would_be;
  return { difference: differenceOf(boot, kind, rule, was, decision, sure && !unseen_advance) };
}

const isRescued = ({ boot, deadline_at, rescue_seconds }: ReplayedBoot): boolean =>
  boot.ended_at <= secondsLater(deadline_at, rescue_seconds);

/** Replays a boot that arrived without failing. */
function replayArrival(replayed: ReplayedBoot): ReplayOutcome {
  const { boot, deadline_at } = replayed;
  if (boot.ended_at <= deadline_at) return undefined;
  // At this deadline a machine that sends heartbeats becomes ready; only a silent one fails.
  if (boot.phase === 'start') return { unknown: { kind: 'beats', node_id: boot.node_id } };
  const late = `it arrived ${round(secondsBetween(deadline_at, boot.ended_at))} s later`;
  return isRescued(replayed)
    ? buildDifference(
        replayed,
        'boot_given_up',
        arrivalOf(replayed),
        failureUnder(replayed, `${late} and would have been rescued`),
      )
    : buildDifference(
        replayed,
        'boot_lost',
        arrivalOf(replayed),
        failureUnder(replayed, `${late}, after its rescue window`),
      );
}

/**
 * Replays a start-up that failed in silence. At an earlier deadline the machine may still have sent
 * heartbeats, and would then have become ready.
 */
function replaySilentStartUp(
  replayed: ReplayedBoot,
  { at, reason, last_seen_at, stale_seconds }: GivenUp,
): ReplayOutcome {
  const { boot, deadline_at, budget } = replayed;
  if (boot.phase !== 'start' || last_seen_at === null || deadline_at >= at) return undefined;
  const freshUntil = secondsLater(last_seen_at, stale_seconds ?? 0);
  // If the machine still sent heartbeats when it failed, it failed for another reason, which an
  // earlier deadline does not change. If it was silent at the earlier deadline, it fails there too.
  if (freshUntil >= at || freshUntil < deadline_at) return undefined;
  if (last_seen_at > deadline_at) return { unknown: { kind: 'beats', node_id: boot.node_id } };
  const stillSent = `it still sent heartbeats at the end of its start-up time (${waitWords(boot, deadline_at, budget)})`;
  const would_be = { verdict: 'ready', at: deadline_at, reason: stillSent };
  return buildDifference(replayed, 'ready_instead', { verdict: 'failed', at, reason }, would_be, {
    rule: 'stuck-starting',
  });
}

/** Replays a boot that failed and arrived later. */
function replayLateArrival(replayed: ReplayedBoot, given_up: GivenUp, before: DeadlineInForce): ReplayOutcome {
  const { boot, deadline_at } = replayed;
  const was = failureOf(given_up);
  if (boot.ended_at <= deadline_at) return buildDifference(replayed, 'boot_spared', was, arrivalOf(replayed));
  const wasRescued =
    boot.outcome === 'late' || boot.ended_at <= secondsLater(before.deadline_at, before.rescue_seconds);
  const failure = (words: string) => failureUnder(replayed, words);
  if (!isRescued(replayed))
    return wasRescued
      ? buildDifference(replayed, 'boot_lost', was, failure('it arrived after its rescue window'))
      : undefined;
  if (!wasRescued) return buildDifference(replayed, 'boot_kept', was, failure('it arrived inside its rescue window'));
  if (isSame(before.deadline_at, deadline_at)) return undefined;
  const kind = deadline_at < before.deadline_at ? 'late_sooner' : 'late_later';
  return buildDifference(replayed, kind, was, failure('it arrived later and would have been rescued'));
}

/** Replays a boot that failed and never arrived. */
function replayStuckBoot(replayed: ReplayedBoot, given_up: GivenUp, before: DeadlineInForce): ReplayOutcome {
  const { boot, deadline_at } = replayed;
  if (isSame(before.deadline_at, deadline_at)) return undefined;
  const was = failureOf(given_up);
  if (deadline_at < before.deadline_at)
    return buildDifference(replayed, 'stuck_sooner', was, failureUnder(replayed, ''));
  const wasObserved = deadline_at <= boot.watched_until;
  const then = wasObserved ? '' : 'it was not observed that long, so it is unknown whether it would have arrived';
  return buildDifference(replayed, 'stuck_later', was, failureUnder(replayed, then), { sure: wasObserved });
}

/** Replays a start-up that a rule ended, because the machine sent heartbeats at its deadline. */
function replayPromotion(replayed: ReplayedBoot, before: Date): ReplayOutcome {
  const { boot, deadline_at, budget } = replayed;
  const was = { ...arrivalOf(replayed), reason: 'it sent heartbeats, and its start-up time was over' };
  const sooner = deadline_at < before;
  const reason = sooner
    ? `if it sent heartbeats by then (${waitWords(boot, deadline_at, budget)})`
    : `at the latest, unless it reports ready before (${waitWords(boot, deadline_at, budget)})`;
  const would_be = { verdict: 'ready', at: deadline_at, reason };
  return buildDifference(replayed, sooner ? 'ready_sooner' : 'ready_later', was, would_be, {
    rule: 'stuck-starting',
    sure: false,
  });
}

/** Replays a boot that something else ended, or that still runs. */
function replayInterruption(replayed: ReplayedBoot): ReplayOutcome {
  const { boot, deadline_at } = replayed;
  if (boot.ended_at <= deadline_at) return undefined;
  if (boot.phase === 'start') return { unknown: { kind: 'beats', node_id: boot.node_id } };
  const would_be = failureUnder(replayed, 'whether it would have arrived is unknown');
  return buildDifference(replayed, 'boot_cut_short', interruptionOf(replayed), would_be, {
    sure: boot.outcome === 'running',
  });
}

/** The deadline and rescue window under the policy that was in force. */
interface DeadlineInForce {
  deadline_at: Date;
  rescue_seconds: number;
}

const isFarFrom = (one: Date, other: Date) => Math.abs(secondsBetween(one, other)) > sweepDelaySeconds;

/**
 * Finds records that the policy in force does not explain. A replay of such a boot under another
 * policy would be wrong too.
 */
function findUnexplained({ boot, deadline_at }: ReplayedBoot, before: DeadlineInForce): ReplayOutcome {
  const { given_up, node_id, ended_at } = boot;
  if (given_up && isFarFrom(given_up.deadline_at ?? given_up.at, before.deadline_at))
    return { unknown: { kind: 'moved', node_id } };
  if (boot.ready_by_rule && isFarFrom(ended_at, before.deadline_at)) return { unknown: { kind: 'moved', node_id } };
  const endedOrFailedAt = given_up ? given_up.at : ended_at;
  if (endedOrFailedAt <= secondsLater(before.deadline_at, sweepDelaySeconds)) return undefined;
  return !given_up && ended_at <= deadline_at ? undefined : { unknown: { kind: 'kept', node_id } };
}

export function replayBoot(boot: RecordedBoot, inForce: ReplayPolicy, proposed: ReplayPolicy): ReplayOutcome {
  const { given_up, phase } = boot;
  const before: DeadlineInForce = {
    deadline_at: deadlineUnder(boot, boot.budget_seconds, inForce),
    rescue_seconds: budgetUnder(boot, inForce, 'rescue').seconds,
  };
  const budget = budgetUnder(boot, proposed, phase);
  const rescue_seconds = budgetUnder(boot, proposed, 'rescue').seconds;
  const deadline_at = deadlineUnder(boot, budget.seconds, proposed);
  const progressCounts = phase === 'start' || proposed.budgets.progress_aware === true;
  const unseen_advance = progressCounts && given_up !== null && deadline_at > given_up.at;
  const replayed: ReplayedBoot = { boot, budget, rescue_seconds, deadline_at, unseen_advance };
  const isSameDeadline = isSame(before.deadline_at, deadline_at);
  // A boot that did not fail needs no rescue.
  if (isSameDeadline && (!given_up || before.rescue_seconds === rescue_seconds)) return undefined;
  const unknown = findUnexplained(replayed, before);
  if (unknown) return unknown;
  if (boot.ready_by_rule) return isSameDeadline ? undefined : replayPromotion(replayed, before.deadline_at);
  if (!given_up) return hasArrived(boot) ? replayArrival(replayed) : replayInterruption(replayed);
  const promotion = replaySilentStartUp(replayed, given_up);
  if (promotion) return promotion;
  return hasArrived(boot) ? replayLateArrival(replayed, given_up, before) : replayStuckBoot(replayed, given_up, before);
}
