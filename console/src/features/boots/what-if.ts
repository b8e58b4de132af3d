/** Judges a budget over the boots on the page, as the server does over the whole record. Pure. */
import type { BootPhase, WhatIf } from '../../../../src/contract/supervision/boots.ts';
import { falseKillShare, whatIf } from '../../../../src/lifecycle/boots/what-if.ts';
import { defaultRescueSeconds } from '../../../../src/lifecycle/deadlines/budgets.ts';

/** The server's answer without the age of the record, which only the server knows. */
export type Judgement = Omit<WhatIf, 'pool' | 'phase' | 'oldest_at' | 'current'>;

type Judged = Pick<BootPhase, 'phase' | 'budget_seconds' | 'rescue_seconds' | 'samples' | 'survival'>;

/**
 * A default rescue window follows the budget; one that was set stays. The server decides in the
 * end.
 */
function rescueOf({ phase, budget_seconds, rescue_seconds }: Judged, asked_seconds: number): number {
  const aware = [false, true].find((each) => rescue_seconds === defaultRescueSeconds(budget_seconds, each));
  return phase === 'provision' && aware !== undefined ? defaultRescueSeconds(asked_seconds, aware) : rescue_seconds;
}

export function judge(phase: Judged, budget_seconds: number): Judgement {
  const { samples, survival } = phase;
  const rescue_seconds = rescueOf(phase, budget_seconds);
  const { boots, false_kills, rescued, stuck, stuck_found_sooner_seconds, undecided } = whatIf(samples, {
    budget_seconds,
    rescue_seconds,
  });
  return {
    budget_seconds,
    rescue_seconds,
    boots,
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
