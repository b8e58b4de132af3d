/** What became of the sequences of a run: what they broke, and what they did, so that a reader sees that it was no empty exercise. */
import type { Figures, Violation } from './invariants.ts';
import { verdictRules } from './model.ts';

export interface Report extends Figures {
  violations: Violation[];
  /** What each sequence did, in words. */
  stories: Map<number, string[]>;
  /** What is on record of those that broke something. */
  record: Map<string, string[]>;
  /** How many of each kind. */
  commands: Record<string, number>;
  /** Where the time went, in seconds. Much of it runs side by side. */
  spent: Record<string, number>;
}

export function count(counts: Record<string, number>, name: string, times = 1): void {
  counts[name] = (counts[name] ?? 0) + times;
}

function added(all: readonly Record<string, number>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const counts of all) for (const [name, times] of Object.entries(counts)) count(sum, name, times);
  return sum;
}

export const together = (reports: readonly Report[]): Report => ({
  violations: reports.flatMap(({ violations }) => violations),
  stories: new Map(reports.flatMap(({ stories }) => [...stories])),
  record: new Map(reports.flatMap(({ record }) => [...record])),
  commands: added(reports.map(({ commands }) => commands)),
  edges: added(reports.map(({ edges }) => edges)),
  withheld: added(reports.map(({ withheld }) => withheld)),
  spent: added(reports.map(({ spent }) => spent)),
});

/** How often each cause changed a status. */
export function causesOf({ edges }: Report): Record<string, number> {
  const causes: Record<string, number> = {};
  for (const [edge, times] of Object.entries(edges)) count(causes, edge.replace(/^.* by /, ''), times);
  return causes;
}

const total = (counts: Record<string, number>) => Object.values(counts).reduce((sum, times) => sum + times, 0);

const most = (counts: Record<string, number>) =>
  Object.entries(counts)
    .sort(([, one], [, other]) => other - one)
    .map(([name, times]) => `${name} ${Number.isInteger(times) ? times : times.toFixed(1)}`)
    .join(', ');

export function tellFigures(report: Report): string {
  const { commands, edges, withheld, spent } = report;
  const causes = causesOf(report);
  const verdicts = Object.fromEntries(Object.entries(causes).filter(([by]) => verdictRules.includes(by)));
  const others = Object.fromEntries(Object.entries(causes).filter(([by]) => !verdictRules.includes(by)));
  return [
    `  ${total(commands)} commands: ${most(commands)}`,
    `  ${total(edges)} changes on ${Object.keys(edges).length} different edges, ${total(verdicts)} of them verdicts: ${most(verdicts)}`,
    `  and not verdicts: ${most(others)}`,
    `  verdicts that did not take place: ${most(withheld)}`,
    `  seconds, much of it side by side: ${most(spent)}`,
  ].join('\n');
}
