/** Sentences about the effect of another budget, for the CLI and the console. */

import type { BudgetSource } from '../deadlines/budgets.ts';

/**
 * Where a budget comes from. The text follows a number of seconds and a comma, also in parentheses.
 */
export const sourceWords: Record<BudgetSource, string> = {
  allocation: 'requested by its allocation',
  learned: 'learned from boots',
  pool: 'set by the pool',
  class: 'set by its runtime class',
  default: 'by default',
};

/** The counts that the sentences need. */
export interface WhatIfCounts {
  budget_seconds: number;
  boots: number;
  arrived_count: number;
  false_kill_count: number;
  rescued_count: number;
  stuck_count: number;
  stuck_found_sooner_seconds: number | null;
  undecided_count: number;
  predicted_false_kill_share: number | null;
}

/** Formats a budget, for example `4.2 s` or `423 s`. */
export const formatSeconds = (seconds: number): string => `${Number(seconds.toFixed(seconds < 10 ? 1 : 0))} s`;

/** Formats a share, for example `0.4 %` or `12 %`. A share above zero is never shown as zero. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return '< 0.1 %';
  return `${Number((share * 100).toFixed(share < 0.1 ? 1 : 0))} %`;
}

const formatCount = (number: number) => number.toLocaleString('en');

function rescueWords({ false_kill_count, rescued_count }: WhatIfCounts): string {
  if (false_kill_count === 1)
    return rescued_count === 1
      ? 'it would have been rescued'
      : 'it would have been lost, because it arrived after the rescue window';
  if (rescued_count === false_kill_count) return 'all of them would have been rescued';
  if (rescued_count === 0) return 'none of them would have been rescued';
  return `${formatCount(rescued_count)} of them would have been rescued`;
}

/** The summary in one sentence. */
export function headlineOf(counts: WhatIfCounts): string {
  const { budget_seconds, boots, arrived_count, false_kill_count } = counts;
  const withBudget = `With ${formatSeconds(budget_seconds)}`;
  if (boots === 0) return `${withBudget}: unknown, because no boot is recorded.`;
  if (arrived_count === 0)
    return `${withBudget}: unknown, because ${boots === 1 ? 'the one boot on record never' : `none of ${formatCount(boots)} boots on record`} arrived.`;
  if (false_kill_count === 0)
    return `${withBudget}, ${boots === 1 ? 'the one boot on record' : `none of ${formatCount(boots)} boots`} would ${boots === 1 ? 'not ' : ''}have been given up before it arrived.`;
  const pronoun = false_kill_count === 1 ? 'it' : 'they';
  return `${withBudget}, ${formatCount(false_kill_count)} of ${formatCount(boots)} boots would have been given up although ${pronoun} arrived; ${rescueWords(counts)}.`;
}

/** How much sooner stuck boots would have been found. */
export function stuckSentence({ stuck_count, stuck_found_sooner_seconds }: WhatIfCounts): string {
  if (stuck_count === 0 || stuck_found_sooner_seconds === null) return 'No recorded boot was stuck.';
  const subject = stuck_count === 1 ? 'The one stuck boot' : `The ${formatCount(stuck_count)} stuck boots`;
  const onAverage = stuck_count === 1 ? '' : ', on average';
  const difference = Math.abs(stuck_found_sooner_seconds);
  if (difference < 0.05) return `${subject} would have been found at the same time.`;
  const direction = stuck_found_sooner_seconds > 0 ? 'sooner' : 'later';
  return `${subject} would have been found ${formatSeconds(difference)} ${direction}${onAverage}.`;
}

/** Empty if the outcome of every boot is known. */
export function undecidedSentence({ undecided_count, budget_seconds }: WhatIfCounts): string {
  if (undecided_count === 0) return '';
  const [subject, pronoun] =
    undecided_count === 1 ? ['1 boot', 'it'] : [`${formatCount(undecided_count)} boots`, 'they'];
  return `${subject} ended for another reason after ${formatSeconds(budget_seconds)}; whether ${pronoun} would have arrived is unknown.`;
}

/** With 95 % confidence, the upper bound of a share if none of `seen` cases had the property. */
const unseenBound = (seen: number): number => (seen > 0 ? 1 - 0.05 ** (1 / seen) : 1);

/** The predicted share of slow boots. If none or all boots were slow, only a bound is known. */
function predictSlowShare(counts: WhatIfCounts): { share: number; bound?: 'at most' | 'at least' } | null {
  const { predicted_false_kill_share: share, arrived_count, false_kill_count } = counts;
  if (share === null) return null;
  if (share === 0 && false_kill_count === 0) return { share: unseenBound(arrived_count), bound: 'at most' };
  if (share === 1 && false_kill_count === arrived_count)
    return { share: 1 - unseenBound(arrived_count), bound: 'at least' };
  return { share };
}

export function predictedShare(counts: WhatIfCounts): string {
  const prediction = predictSlowShare(counts);
  return prediction ? `${prediction.bound ? `${prediction.bound} ` : ''}${percent(prediction.share)}` : '';
}

export function predictedSentence(counts: WhatIfCounts): string {
  const prediction = predictSlowShare(counts);
  if (!prediction) return '';
  const confidence = prediction.bound ? ' (95 % sure)' : '';
  return `Of future boots that arrive, ${predictedShare(counts)} would take longer${confidence}.`;
}

/** The share of arriving boots that are too slow, with its uncertainty. */
export function tooSlowWords(predicted: { share: number; low: number; high: number }, arrivals: number): string {
  const { share, low, high } = predicted;
  if (share === 0)
    return `none of ${formatCount(arrivals)} that arrived (95 % sure: at most ${percent(unseenBound(arrivals))})`;
  if (share === 1)
    return `all ${formatCount(arrivals)} that arrived (95 % sure: at least ${percent(1 - unseenBound(arrivals))})`;
  return `${percent(share)} of those that arrive (95 % sure: ${percent(low)} to ${percent(high)})`;
}
