/** What every benchmark shares: rounds, medians, and a table for people or JSON for programs. Figures are printed, never judged. */
import { arch, cpus, loadavg, totalmem } from 'node:os';
import { systemClock } from '../../src/base/clock.ts';
import type { Called } from './options.ts';

/** The value below which a share of the numbers lies; between two neighbours it is interpolated. */
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

/** How many digits behind the point say something. */
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
  /** What it should stay below on the machine that the target was set for. */
  target?: number;
  /** The same for what should be large. */
  at_least?: number;
  samples?: number[];
}

export const shown = (value: number, unit: Unit) => `${value.toFixed(digits[unit])} ${unit}`;

/** Each, where the eye can still take them in; otherwise how far they lie apart. */
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

/** What a benchmark was told that matters for how it is told. */
type Asked = Called & { json: boolean; quick?: boolean; rounds?: number };

/** What must be known of a run besides its figures, so that nobody takes it for another one: its size, and where it was. */
const circumstancesOf = ({ command, quick = false }: Asked) => ({ command, quick, machine: machineHere() });

export function report(
  asked: Asked,
  name: string,
  figures: Figure[],
  loadBefore: number[],
  {
    medianOf = String(asked.rounds ?? 1),
    jsonToo = false,
    notes = [],
  }: {
    medianOf?: string;
    jsonToo?: boolean;
    /** What else must be known to read the figures, in words: what was the limit, what was played. */
    notes?: string[];
  } = {},
): void {
  const load = { before: loadBefore, after: loadavg() };
  const circumstances = circumstancesOf(asked);
  const json = `${JSON.stringify({ benchmark: name, ...circumstances, load, figures, notes })}\n`;
  if (asked.json) {
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
