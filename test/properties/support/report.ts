/** The result of a run: violations, and figures that show how much the sequences did. */
import type { Figures, Violation } from './invariants.ts';
import { verdictRules } from './model.ts';

export interface Report extends Figures {
  violations: Violation[];
  /** The log of each sequence, by its index. */
  logs: Map<number, string[]>;
  /** The evidence about violations, by the id of the node or allocation. */
  evidence: Map<string, string[]>;
  commands: Record<string, number>;
  /** The seconds that each part of a run took. Parts overlap, because many run in parallel. */
  seconds: Record<string, number>;
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
  evidence: new Map(reports.flatMap(({ evidence }) => [...evidence])),
  commands: sumCounts(reports.map(({ commands }) => commands)),
  edges: sumCounts(reports.map(({ edges }) => edges)),
  withheld: sumCounts(reports.map(({ withheld }) => withheld)),
  seconds: sumCounts(reports.map(({ seconds }) => seconds)),
});

/** How often each cause changed a status. */
export function countCauses({ edges }: Report): Record<string, number> {
  const causes: Record<string, number> = {};
  for (const [edge, times] of Object.entries(edges)) count(causes, edge.replace(/^.* by /, ''), times);
  return causes;
}

const sumOf = (counts: Record<string, number>) => Object.values(counts).reduce((sum, times) => sum + times, 0);

const byFrequency = (counts: Record<string, number>) =>
  Object.entries(counts)
    .sort(([, left], [, right]) => right - left)
    .map(([name, times]) => `${name} ${Number.isInteger(times) ? times : times.toFixed(1)}`)
    .join(', ');

export function describeFigures(report: Report): string {
  const { commands, edges, withheld, seconds } = report;
  const causes = countCauses(report);
  const verdicts = Object.fromEntries(Object.entries(causes).filter(([by]) => verdictRules.includes(by)));
  const otherCauses = Object.fromEntries(Object.entries(causes).filter(([by]) => !verdictRules.includes(by)));
  return [
    `  ${sumOf(commands)} commands: ${byFrequency(commands)}`,
    `  ${sumOf(edges)} changes on ${Object.keys(edges).length} different edges, ${sumOf(verdicts)} of them verdicts: ${byFrequency(verdicts)}`,
    `  other causes: ${byFrequency(otherCauses)}`,
    `  withheld verdicts: ${byFrequency(withheld)}`,
    `  seconds, partly in parallel: ${byFrequency(seconds)}`,
  ].join('\n');
}
