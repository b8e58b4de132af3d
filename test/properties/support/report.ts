/** The result of a run: violations, and figures that show how much the sequences did. */
import type { Figures, Violation } from './invariants.ts';
import { verdictRules } from './model.ts';

export interface Report extends Figures {
  violations: Violation[];
  /** The log of each sequence. */
  logs: Map<number, string[]>;
  /** The evidence about each violation. */
  record: Map<string, string[]>;
  commands: Record<string, number>;
  /** Seconds per part. Much of it runs in parallel. */
  spent: Record<string, number>;
}

export function count(counts: Record<string, number>, name: string, times = 1): void {
  counts[name] = (counts[name] ?? 0) + times;
}

function sumCounts(all: readonly Record<string, number>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const counts of all) for (const [name, times] of Object.entries(counts)) count(sum, name, times);
  return sum;
}

export const mergeReports = (reports: readonly Report[]): Report => ({
  violations: reports.flatMap(({ violations }) => violations),
  logs: new Map(reports.flatMap(({ logs }) => [...logs])),
  record: new Map(reports.flatMap(({ record }) => [...record])),
  commands: sumCounts(reports.map(({ commands }) => commands)),
  edges: sumCounts(reports.map(({ edges }) => edges)),
  withheld: sumCounts(reports.map(({ withheld }) => withheld)),
  spent: sumCounts(reports.map(({ spent }) => spent)),
});

/** How often each cause changed a status. */
export function causesOf({ edges }: Report): Record<string, number> {
  const causes: Record<string, number> = {};
  for (const [edge, times] of Object.entries(edges)) count(causes, edge.replace(/^.* by /, ''), times);
  return causes;
}

const total = (counts: Record<string, number>) => Object.values(counts).reduce((sum, times) => sum + times, 0);

const byFrequency = (counts: Record<string, number>) =>
  Object.entries(counts)
    .sort(([, one], [, other]) => other - one)
    .map(([name, times]) => `${name} ${Number.isInteger(times) ? times : times.toFixed(1)}`)
    .join(', ');

export function describeFigures(report: Report): string {
  const { commands, edges, withheld, spent } = report;
  const causes = causesOf(report);
  const verdicts = Object.fromEntries(Object.entries(causes).filter(([by]) => verdictRules.includes(by)));
  const others = Object.fromEntries(Object.entries(causes).filter(([by]) => !verdictRules.includes(by)));
  return [
    `  ${total(commands)} commands: ${byFrequency(commands)}`,
    `  ${total(edges)} changes on ${Object.keys(edges).length} different edges, ${total(verdicts)} of them verdicts: ${byFrequency(verdicts)}`,
    `  other causes: ${byFrequency(others)}`,
    `  withheld verdicts: ${byFrequency(withheld)}`,
    `  seconds, partly in parallel: ${byFrequency(spent)}`,
  ].join('\n');
}
