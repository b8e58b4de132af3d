/** What another budget would have done to the boots on a page, as the server would say it of the whole record. Pure. */
import type { BootPhase, WhatIf } from '../../../../src/contract/boots.ts';
import { falseKillShare, whatIf } from '../../../../src/lifecycle/boots/what-if.ts';
import { usualRescueSeconds } from '../../../../src/lifecycle/deadlines/budgets.ts';

/** The server's answer without what only the server knows: how far back the record goes. */
export type Judgement = Omit<WhatIf, 'pool' | 'phase' | 'oldest_at' | 'current'>;

type Judged = Pick<BootPhase, 'phase' | 'budget_seconds' | 'rescue_seconds' | 'samples' | 'survival'>;

/** A window that is as usual, with or without progress, follows the budget; one that was set stays. The server, which knows, has the last word. */
function rescueOf({ phase, budget_seconds, rescue_seconds }: Judged, asked_seconds: number): number {
  const aware = [false, true].find((each) => rescue_seconds === usualRescueSeconds(budget_seconds, each));
  return phase === 'provision' && aware !== undefined ? usualRescueSeconds(asked_seconds, aware) : rescue_seconds;
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
