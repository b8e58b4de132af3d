/** What another budget would have done to boots that are on record. Pure. */
import { type BandedStep, hasArrived, type TimedBoot } from './survival.ts';

export interface WhatIfQuestion {
  budget_seconds: number;
  /** How long after being given up a boot may still arrive and be taken back. */
  rescue_seconds: number;
}

/** Given up by this budget although it arrived: `rescued` says that it came inside the window and would have been taken back. */
export interface FalseKill<B> {
  boot: B;
  over_seconds: number;
  rescued: boolean;
}

/** Given up in truth as well, and nobody has seen it since. */
export interface StuckBoot<B> {
  boot: B;
  /** Below nothing: so much later. */
  sooner_seconds: number;
}

export interface WhatIf<B> {
  boots: number;
  /** The furthest over the budget first. */
  false_kills: FalseKill<B>[];
  rescued: number;
  /** The longest waited for first. */
  stuck: StuckBoot<B>[];
  /** In the mean over the stuck; null where none was. */
  stuck_found_sooner_seconds: number | null;
  /** Ended by others, or still running, when they were already past this budget: whether they would have come nobody knows. */
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
  const sooner = stuck.reduce((sum, { sooner_seconds }) => sum + sooner_seconds, 0);
  return {
    boots: boots.length,
    false_kills,
    rescued: false_kills.filter(({ rescued }) => rescued).length,
    stuck,
    stuck_found_sooner_seconds: stuck.length > 0 ? sooner / stuck.length : null,
    undecided,
  };
}

export interface BandedShare {
  share: number;
  low: number;
  high: number;
}

/** Of boots that complete, the share that takes longer than a budget, with its band; null before one has completed. */
export function falseKillShare(steps: readonly BandedStep[], budget_seconds: number): BandedShare | null {
  const end = steps.at(-1)?.share ?? 1;
  if (end >= 1) return null;
  const standing = steps.findLast(({ seconds }) => seconds <= budget_seconds) ?? { share: 1, low: 1, high: 1 };
  const ofThoseThatCome = (share: number) => Math.min(1, Math.max(0, (share - end) / (1 - end)));
  return {
    share: ofThoseThatCome(standing.share),
    low: ofThoseThatCome(standing.low),
    high: ofThoseThatCome(standing.high),
  };
}
