/** What every benchmark shares: rounds, medians, and a table for people or JSON for programs. Figures are printed, never judged. */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { systemClock } from '../src/base/clock.ts';

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, rounds: { type: 'string', default: '5' } },
});
export const rounds = Math.max(1, Number(values.rounds));

export function median(numbers: number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = Number.NaN, high = low] = sorted.length % 2 ? [sorted[middle]] : [sorted[middle - 1], sorted[middle]];
  return (low + high) / 2;
}

export async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startedMs) / 1000;
}

export interface Figure {
  what: string;
  value: number;
  unit: 's' | 'MB' | '×';
  /** What it should stay below on the machine that the target was set for. */
  target?: number;
  samples?: number[];
}

const shown = (value: number, unit: string) => `${value.toFixed(unit === 'MB' ? 0 : 2)} ${unit}`;

export function report(name: string, figures: Figure[], loadBefore: number[]): void {
  const load = { before: loadBefore, after: loadavg(), cores: cpus().length };
  if (values.json) {
    process.stdout.write(`${JSON.stringify({ benchmark: name, load, figures })}\n`);
    return;
  }
  const width = Math.max(...figures.map((figure) => figure.what.length));
  const lines = figures.map(({ what, value, unit, target, samples }) => {
    const spread = samples?.map((sample) => sample.toFixed(2)).join(' ');
    const aim = target === undefined ? '' : `target < ${shown(target, unit)}`;
    return `  ${what.padEnd(width)}  ${shown(value, unit).padStart(10)}  ${aim.padEnd(18)} ${spread ? `[${spread}]` : ''}`;
  });
  const loads = [load.before, load.after].map((each) => each.map((figure) => figure.toFixed(1)).join(' '));
  process.stdout.write(
    `${name}: median of ${rounds}, ${load.cores} cores, load average ${loads[0]} → ${loads[1]}\n${lines.join('\n')}\n`,
  );
}
