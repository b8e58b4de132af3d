/** Judges a budget over the boots on the page, as the server does over the whole record. Pure. */
import type { BootPhase, WhatIf } from '../../../../src/contract/supervision/boots.ts';
import { falseKillShare, whatIf } from '../../../../src/lifecycle/boots/what-if.ts';
import { defaultRescueSeconds } from '../../../../src/lifecycle/deadlines/budgets.ts';

/** The part of the server's result that the page can compute from its own boots. */
export type Judgement = Omit<WhatIf, 'pool' | 'phase' | 'oldest_at' | 'current'>;

type JudgedPhase = Pick<BootPhase, 'phase' | 'budget_seconds' | 'rescue_seconds' | 'samples' | 'survival'>;

/**
 * A default rescue window follows the tried budget; an explicit one does not. A window that equals
 * a default counts as one. The server's answer replaces this estimate.
 */
function rescueOf({ phase, budget_seconds, rescue_seconds }: JudgedPhase, tried_seconds: number): number {
  const aware = [false, true].find((each) => rescue_seconds === defaultRescueSeconds(budget_seconds, each));
  return phase === 'provision' && aware !== undefined ? defaultRescueSeconds(tried_seconds, aware) : rescue_seconds;
}

export function judge(phase: JudgedPhase, budget_seconds: number): Judgement {
  const { samples, survival } = phase;
  const rescue_seconds = rescueOf(phase, budget_seconds);
  const { boots, arrived, false_kills, rescued, stuck, stuck_found_sooner_seconds, undecided } = whatIf(samples, {
    budget_seconds,
    rescue_seconds,
  });
  return {
    budget_seconds,
    rescue_seconds,
    boots,
    arrived_count: arrived,
    false_kills: false_kills.map(({ boot, ...judged }) => ({ ...boot, ...judged })),
    false_kill_count: false_kills.length,
    rescued_count: rescued,
    stuck: stuck.map(({ boot, ...judged }) => ({ ...boot, ...judged })),
    stuck_count: stuck.length,
    stuck_found_sooner_seconds,
    undecided_count: undecided,
    predicted_false_kill_share: falseKillShare(survival, budget_seconds)?.share ?? null,
  };
}
