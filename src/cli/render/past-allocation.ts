/** What became of an allocation that has no machine any more, in words: its tenant may not look at that machine, and need not. */
import type { Allocation } from '../../contract/allocation.ts';
import type { Evidence } from '../../contract/evidence.ts';
import { allocationMeans } from '../../lifecycle/rescue-window.ts';
import { type ClosingContext, hintLines } from './closing.ts';
import { ageSince, momentAndDistance, relative, taken } from './duration.ts';
import { titleLine } from './node.ts';
import { allocationTones } from './palette.ts';
import { type Fact, renderFacts } from './table.ts';
import { printable } from './text.ts';

const between = (from: string | null, to: string | null) =>
  from && to ? taken((Date.parse(to) - Date.parse(from)) / 1000) : null;

/** `asked` is the fact by which it began to be given back, where there is one. */
export function pastAllocationLines(allocation: Allocation, asked: Evidence | null, context: ClosingContext): string[] {
  const { nowMs, commandLine, paint } = context;
  const { allocation_id: id, verdict, reason, released_at, active_at, status } = allocation;
  const facts: Fact[] = [
    ['released', momentAndDistance(released_at, nowMs)],
    ['by', asked?.actor && printable(asked.actor.name)],
    ['asked', asked && `${relative(asked.at, nowMs)}: ${printable(asked.summary)}`],
    ['because', reason === verdict?.reason ? null : printable(reason ?? '')],
    ['verdict', verdict && `${printable(verdict.reason)}  [${verdict.rule}, ${relative(verdict.at, nowMs)}]`],
    ['in use', active_at ? `for ${between(active_at, released_at ?? allocation.status_since)}` : 'never'],
    ['machine', allocation.node_id && `${allocation.node_id}, ${status === 'released' ? 'given back' : 'lost'}`],
  ];
  return [
    titleLine(
      id,
      allocation.name,
      status,
      allocationTones[status],
      `for ${ageSince(allocation.status_since, nowMs)}`,
      context,
    ),
    paint('quiet', `  ${allocationMeans(allocation, nowMs)}`),
    ...renderFacts(facts, context),
    '',
    ...hintLines(
      [
        ['See what happened', commandLine('timeline', id)],
        ['Read what it wrote', commandLine('logs', id)],
        ...(status === 'failed' ? [['Give it up', commandLine('release', id)] as [string, string]] : []),
      ],
      paint,
    ),
  ];
}
