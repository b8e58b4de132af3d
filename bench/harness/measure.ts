/**
 * Computes medians and quantiles, and prints the figures of a benchmark as a table or as JSON.
 * Targets are printed next to the figures; this module does not check them.
 */
import { arch, cpus, loadavg, totalmem } from 'node:os';
import { systemClock } from '../../src/base/clock.ts';
import type { Invocation } from './options.ts';

/** The quantile at `share`, from 0 to 1, interpolated between neighbours. */
export function quantile(numbers: number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const position = share * (sorted.length - 1);
  const below = Math.floor(position);
  const low = sorted[below] ?? Number.NaN;
  return low + ((sorted[below + 1] ?? low) - low) * (position - below);
}

export const median = (numbers: number[]): number => quantile(numbers, 0.5);

export async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startedMs) / 1000;
}

/** The number of decimal places that are printed, by unit. */
const decimals = {
  s: 2,
  ms: 1,
  µs: 1,
  MB: 0,
  kB: 0,
  '/s': 1,
  'B/s': 0,
  '×': 2,
  '%': 1,
  'lines/s': 0,
  'beats/s': 0,
  'operations/s': 1,
  '': 0,
};
type Unit = keyof typeof decimals;

export interface Figure {
  /** The label. One that starts with "…" continues the label of an earlier figure. */
  what: string;
  value: number;
  unit: Unit;
  /** On the reference machine the value must stay below this. */
  target?: number;
  /** On the reference machine the value must reach this. */
  at_least?: number;
  samples?: number[];
}

export const formatValue = (value: number, unit: Unit) => `${value.toFixed(decimals[unit])} ${unit}`;

/** All samples if they are few, otherwise their range. */
function spreadOf(samples: number[], unit: Unit): string {
  const join = (values: number[], separator: string) =>
    values.map((value) => value.toFixed(Math.max(1, decimals[unit]))).join(separator);
  if (samples.length <= 7) return `[${join(samples, ' ')}]`;
  return `[${join([quantile(samples, 0), quantile(samples, 1)], ' … ')}]`;
}

export interface Machine {
  cores: number;
  memory_gb: number;
  architecture: string;
}

const describeMachine = (): Machine => ({
  cores: cpus().length,
  memory_gb: Math.round(totalmem() / 2 ** 30),
  architecture: arch(),
});

/** The options that affect the output. */
type OutputSettings = Invocation & { json: boolean; quick?: boolean; rounds?: number };

/** Identifies a run, so that figures of different commands or machines are not confused. */
const describeRun = ({ command, quick = false }: OutputSettings) => ({ command, quick, machine: describeMachine() });

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
  const run = describeRun(settings);
  const json = `${JSON.stringify({ benchmark: name, ...run, load, figures, notes })}\n`;
  if (settings.json) {
    process.stdout.write(json);
    return;
  }
  const width = Math.max(...figures.map((figure) => figure.what.length));
  const lines = figures.map(({ what, value, unit, target, at_least, samples }) => {
    const upperBound = target === undefined ? '' : `target < ${formatValue(target, unit)}`;
    const bound = at_least === undefined ? upperBound : `target ≥ ${formatValue(at_least, unit)}`;
    return `  ${what.padEnd(width)}  ${formatValue(value, unit).padStart(14)}  ${bound.padEnd(22)} ${samples ? spreadOf(samples, unit) : ''}`.trimEnd();
  });
  const loads = [load.before, load.after].map((each) => each.map((figure) => figure.toFixed(1)).join(' '));
  process.stdout.write(
    `${name}${run.quick ? ' (--quick: a first look, not for comparison)' : ''}: median of ${medianOf}, ${run.machine.cores} cores, load average ${loads[0]} → ${loads[1]}\n${[...lines, ...notes.map((note) => `  ${note}`)].join('\n')}\n`,
  );
  if (jsonToo) process.stdout.write(json);
}
