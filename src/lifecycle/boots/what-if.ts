/** Computes what another budget would have done to recorded boots. */
import { type BandedStep, hasArrived, type TimedBoot } from './survival.ts';

export interface WhatIfQuestion {
  budget_seconds: number;
  /** How long after its deadline a boot can still be rescued. */
  rescue_seconds: number;
}

/**
 * A boot that this budget would have failed although the machine arrived. `rescued`: the machine
 * arrived within the rescue window that this budget would have given it.
 */
export interface FalseKill<B> {
  boot: B;
  over_seconds: number;
  rescued: boolean;
}

/** A boot that failed and never arrived. */
export interface StuckBoot<B> {
  boot: B;
  /** How much sooner this budget would have failed the boot; negative if later. */
  sooner_seconds: number;
}

export interface WhatIf<B> {
  boots: number;
  /** The boots that arrived. Without one, nothing is known about healthy boots. */
  arrived: number;
  /** Largest excess over the budget first. */
  false_kills: FalseKill<B>[];
  rescued: number;
  /** Longest wait first. */
  stuck: StuckBoot<B>[];
  /** The mean over all stuck boots; null if there are none. */
  stuck_found_sooner_seconds: number | null;
  /**
   * Boots that exceeded this budget and ended for another reason or still run. Whether they would
   * have arrived is unknown.
   */
  undecided: number;
}

export function whatIf<B extends TimedBoot>(
  boots: readonly B[],
  { budget_seconds, rescue_seconds }: WhatIfQuestion,
): WhatIf<B> {
  const false_kills: FalseKill<B>[] = [];
  const stuck: StuckBoot<B>[] = [];
  let undecided = 0;
  for (const boot of boots) {
    const over_seconds = boot.seconds - budget_seconds;
    if (boot.outcome === 'timed_out') stuck.push({ boot, sooner_seconds: over_seconds });
    else if (over_seconds <= 0) continue;
    else if (hasArrived(boot)) false_kills.push({ boot, over_seconds, rescued: over_seconds <= rescue_seconds });
    else undecided++;
  }
  false_kills.sort((one, other) => other.over_seconds - one.over_seconds);
  stuck.sort((one, other) => other.sooner_seconds - one.sooner_seconds);
  const totalSoonerSeconds = stuck.reduce((sum, { sooner_seconds }) => sum + sooner_seconds, 0);
  return {
    boots: boots.length,
    arrived: boots.filter(hasArrived).length,
    false_kills,
    rescued: false_kills.filter(({ rescued }) => rescued).length,
    stuck,
    stuck_found_sooner_seconds: stuck.length > 0 ? totalSoonerSeconds / stuck.length : null,
    undecided,
  };
}

export interface BandedShare {
  share: number;
  low: number;
  high: number;
}

/**
 * The share of completing boots that exceed a budget, with its confidence band; null before the
 * first completion.
 */
export function falseKillShare(steps: readonly BandedStep[], budget_seconds: number): BandedShare | null {
  const end = steps.at(-1)?.share ?? 1;
  if (end >= 1) return null;
  const step = steps.findLast(({ seconds }) => seconds <= budget_seconds) ?? { share: 1, low: 1, high: 1 };
  const amongCompleting = (share: number) => Math.min(1, Math.max(0, (share - end) / (1 - end)));
  return {
    share: amongCompleting(step.share),
    low: amongCompleting(step.low),
    high: amongCompleting(step.high),
  };
}
