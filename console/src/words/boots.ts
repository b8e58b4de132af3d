/** Where recorded boots stand on a chart, and what a budget would have meant for them. Pure: numbers in, places out. */
import type { BootPhase, BootSample } from '../../../src/contract/boots.ts';
import { arrived } from '../../../src/lifecycle/survival.ts';

/** Boots take from half a second to half an hour: only a logarithmic scale shows both ends. */
export interface Scale {
  from: number;
  to: number;
}

const least = 0.1;

export function scaleOf({ samples, budget_seconds }: Pick<BootPhase, 'samples' | 'budget_seconds'>): Scale {
  const all = [...samples.map(({ seconds }) => seconds), budget_seconds];
  const from = Math.max(least, Math.min(...all) / 1.6);
  return { from, to: Math.max(Math.max(...all) * 1.5, from * 10) };
}

/** 0 at the left end, 1 at the right one. */
export const placeOf = (seconds: number, { from, to }: Scale): number =>
  Math.min(1, Math.max(0, Math.log(Math.max(seconds, from) / from) / Math.log(to / from)));

export const secondsAt = (place: number, { from, to }: Scale): number =>
  from * (to / from) ** Math.min(1, Math.max(0, place));

const marks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 86_400];

export const marksOn = (scale: Scale): number[] =>
  marks.filter((seconds) => seconds >= scale.from && seconds <= scale.to);

export const outcomes = ['completed', 'late', 'timed_out', 'cancelled'] as const;
export type Outcome = (typeof outcomes)[number];

export interface Bin {
  from: number;
  to: number;
  counts: Record<Outcome, number>;
  total: number;
}

const binCount = 36;

export function binsOf(samples: readonly Pick<BootSample, 'seconds' | 'outcome'>[], scale: Scale): Bin[] {
  const bins = Array.from({ length: binCount }, (_, i): Bin => {
    const counts = { completed: 0, late: 0, timed_out: 0, cancelled: 0 };
    return { from: secondsAt(i / binCount, scale), to: secondsAt((i + 1) / binCount, scale), counts, total: 0 };
  });
  for (const { seconds, outcome } of samples) {
    const bin = bins[Math.min(binCount - 1, Math.floor(placeOf(seconds, scale) * binCount))];
    if (!bin) continue;
    bin.counts[outcome]++;
    bin.total++;
  }
  return bins;
}

export interface Against {
  boots: number;
  /** Came before the line. */
  in_time: number;
  /** Came, and only after the line. */
  later: number;
  /** Had not come when they were given up or ended, however long that was. */
  never: number;
}

/** What is on record on both sides of a budget; nothing is guessed. */
export function against(samples: readonly Pick<BootSample, 'seconds' | 'outcome'>[], budget_seconds: number): Against {
  const came = samples.filter(arrived);
  const in_time = came.filter(({ seconds }) => seconds <= budget_seconds).length;
  return { boots: samples.length, in_time, later: came.length - in_time, never: samples.length - came.length };
}

/** As one drags it: to the second where seconds matter, else to two digits. */
export function tidySeconds(seconds: number): number {
  const step = 10 ** Math.max(-1, Math.floor(Math.log10(seconds)) - 1);
  return Number((Math.round(seconds / step) * step).toFixed(1));
}
