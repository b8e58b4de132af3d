/** What became of an allocation that has no machine any more, in words: its tenant may not look at that machine, and need not. */
import type { Allocation } from '../../../contract/allocation.ts';
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { Node } from '../../../contract/node.ts';
import { allocationMeans } from '../../../lifecycle/deadlines/rescue-window.ts';
import { titleLine } from '../machines/node.ts';
import { ageSince, momentAndDistance, relative, taken } from '../text/duration.ts';
import { allocationTones } from '../text/palette.ts';
import { type Fact, renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';
import { type ClosingContext, hintLines } from './outcome.ts';

const between = (from: string | null, to: string | null) =>
  from && to ? taken((Date.parse(to) - Date.parse(from)) / 1000) : null;

export interface PastFacts {
  /** The fact by which it began to be given back, where there is one. */
  asked: Evidence | null;
  /** Its machine, where that is still to be seen. */
  machine: Node | null;
}

/** What a forced release could not prove clean was not given back to anybody: it was set aside. */
const isSetAside = (machine: Node | null): machine is Node =>
  machine?.status === 'quarantined' && machine.verdict?.rule === 'force-release';

function machineWords({ node_id, status }: Allocation, machine: Node | null): string | null {
  if (node_id === null) return null;
  if (isSetAside(machine))
    return `${node_id}, quarantined and not given back: ${printable(machine.verdict?.reason ?? 'nothing proves it clean')}`;
  return `${node_id}, ${status === 'released' ? 'given back' : 'lost'}`;
}

export function pastAllocationLines(
  allocation: Allocation,
  { asked, machine }: PastFacts,
  context: ClosingContext,
): string[] {
  const { nowMs, commandLine, paint } = context;
  const { allocation_id: id, verdict, reason, released_at, active_at, status } = allocation;
  const facts: Fact[] = [
    ['released', momentAndDistance(released_at, nowMs)],
    ['by', asked?.actor && printable(asked.actor.name)],
    ['asked', asked && `${relative(asked.at, nowMs)}: ${printable(asked.summary)}`],
    ['because', reason === verdict?.reason ? null : printable(reason ?? '')],
    ['verdict', verdict && `${printable(verdict.reason)}  [${verdict.rule}, ${relative(verdict.at, nowMs)}]`],
    ['in use', active_at ? `for ${between(active_at, asked?.at ?? released_at ?? allocation.status_since)}` : 'never'],
    ['machine', machineWords(allocation, machine)],
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
        ...(isSetAside(machine)
          ? [['See what is left on its machine', commandLine('explain', machine.node_id)] as [string, string]]
          : []),
        ...(status === 'failed' ? [['Give it up', commandLine('release', id)] as [string, string]] : []),
      ],
      paint,
    ),
  ];
}
