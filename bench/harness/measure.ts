/**
 * Shared by all benchmarks: rounds, medians, and output as a table or JSON. Figures are printed,
 * never judged.
 */
import { arch, cpus, loadavg, totalmem } from 'node:os';
import { systemClock } from '../../src/base/clock.ts';
import type { Called } from './options.ts';

/** The quantile of the numbers, interpolated between neighbours. */
export function quantile(numbers: number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const low = sorted[below] ?? Number.NaN;
  return low + ((sorted[below + 1] ?? low) - low) * (place - below);
}

export const median = (numbers: number[]): number => quantile(numbers, 0.5);

export async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startedMs) / 1000;
}

/** Significant decimals per unit. */
const digits = {
  s: 2,
  ms: 1,
  µs: 1,
  MB: 0,
  '×': 2,
  '%': 1,
  'lines/s': 0,
  'beats/s': 0,
  'operations/s': 1,
  '': 0,
};
type Unit = keyof typeof digits;

export interface Figure {
  what: string;
  value: number;
  unit: Unit;
  /** The upper bound on the reference machine. */
  target?: number;
  /** The lower bound, for figures that should be large. */
  at_least?: number;
  samples?: number[];
}

export const shown = (value: number, unit: Unit) => `${value.toFixed(digits[unit])} ${unit}`;

/** All samples if they are few, otherwise their range. */
function spreadOf(samples: number[], unit: Unit): string {
  const written = (values: number[], between: string) =>
    values.map((value) => value.toFixed(Math.max(1, digits[unit]))).join(between);
  if (samples.length <= 7) return `[${written(samples, ' ')}]`;
  return `[${written([quantile(samples, 0), quantile(samples, 1)], ' … ')}]`;
}

export interface Machine {
  cores: number;
  memory_gb: number;
  architecture: string;
}

const machineHere = (): Machine => ({
  cores: cpus().length,
  memory_gb: Math.round(totalmem() / 2 ** 30),
  architecture: arch(),
});

/** Options that affect the output. */
type OutputSettings = Called & { json: boolean; quick?: boolean; rounds?: number };

/** The circumstances of a run, so that it is not mistaken for another: its size and machine. */
const circumstancesOf = ({ command, quick = false }: OutputSettings) => ({ command, quick, machine: machineHere() });

export function report(
  settings: OutputSettings,
  name: string,
  figures: Figure[],
  loadBefore: number[],
  {
    medianOf = String(settings.rounds ?? 1),
    jsonToo = false,
    notes = [],
  }: {
    medianOf?: string;
    jsonToo?: boolean;
    /** Notes needed to read the figures, such as the limiting resource. */
    notes?: string[];
  } = {},
): void {
  const load = { before: loadBefore, after: loadavg() };
  const circumstances = circumstancesOf(settings);
  const json = `${JSON.stringify({ benchmark: name, ...circumstances, load, figures, notes })}\n`;
  if (settings.json) {
    process.stdout.write(json);
    return;
  }
  const width = Math.max(...figures.map((figure) => figure.what.length));
  const lines = figures.map(({ what, value, unit, target, at_least, samples }) => {
    const below = target === undefined ? '' : `target < ${shown(target, unit)}`;
    const aim = at_least === undefined ? below : `target ≥ ${shown(at_least, unit)}`;
    return `  ${what.padEnd(width)}  ${shown(value, unit).padStart(14)}  ${aim.padEnd(22)} ${samples ? spreadOf(samples, unit) : ''}`.trimEnd();
  });
  const loads = [load.before, load.after].map((each) => each.map((figure) => figure.toFixed(1)).join(' '));
  process.stdout.write(
    `${name}${circumstances.quick ? ' (--quick: a first look, not for comparing)' : ''}: median of ${medianOf}, ${circumstances.machine.cores} cores, load average ${loads[0]} → ${loads[1]}\n${[...lines, ...notes.map((note) => `  ${note}`)].join('\n')}\n`,
  );
  if (jsonToo) process.stdout.write(json);
}
