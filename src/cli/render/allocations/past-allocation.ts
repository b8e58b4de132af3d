/** Renders an allocation that is over. Its tenant may no longer see the machine. */
import type { Allocation } from '../../../contract/allocation.ts';
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { Node } from '../../../contract/node.ts';
import { describeAllocationStatus } from '../../../lifecycle/deadlines/rescue-window.ts';
import { titleLine } from '../machines/node.ts';
import { formatAgeSince, formatDuration, formatMoment, formatRelative } from '../text/duration.ts';
import { type Hint, hintLines, type RenderContext } from '../text/hints.ts';
import { allocationTones } from '../text/palette.ts';
import { type Fact, renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';

const durationBetween = (from: string | null, to: string | null) =>
  from && to ? formatDuration((Date.parse(to) - Date.parse(from)) / 1000) : null;

export interface PastFacts {
  /** The fact that records the request to release the allocation, if any. */
  request: Evidence | null;
  /** The machine of the allocation, if the caller may still see it. */
  machine: Node | null;
}

/** A forced release without proof quarantines the machine instead of giving it back. */
const isQuarantined = (machine: Node | null): machine is Node =>
  machine?.status === 'quarantined' && machine.verdict?.rule === 'force-release';

function machineText({ node_id, status }: Allocation, machine: Node | null): string | null {
  if (node_id === null) return null;
  if (isQuarantined(machine))
    return `${node_id}, quarantined and not given back: ${printable(machine.verdict?.reason ?? 'nothing proves it clean')}`;
  return `${node_id}, ${status === 'released' ? 'given back' : 'lost'}`;
}

export function pastAllocationLines(
  allocation: Allocation,
  { request, machine }: PastFacts,
  context: RenderContext,
): string[] {
  const { nowMs, commandLine, paint } = context;
  const { allocation_id: id, verdict, reason, released_at, active_at, status } = allocation;
  const facts: Fact[] = [
    ['released', formatMoment(released_at, nowMs)],
    ['by', request?.actor && printable(request.actor.name)],
    ['requested', request && `${formatRelative(request.at, nowMs)}: ${printable(request.summary)}`],
    ['because', reason === verdict?.reason ? null : printable(reason ?? '')],
    ['verdict', verdict && `${printable(verdict.reason)}  [${verdict.rule}, ${formatRelative(verdict.at, nowMs)}]`],
    [
      'in use',
      active_at ? `for ${durationBetween(active_at, request?.at ?? released_at ?? allocation.status_since)}` : 'never',
    ],
    ['machine', machineText(allocation, machine)],
  ];
  return [
    titleLine(
      id,
      allocation.name,
      status,
      allocationTones[status],
      `for ${formatAgeSince(allocation.status_since, nowMs)}`,
      context,
    ),
    paint('quiet', `  ${describeAllocationStatus(allocation, nowMs)}`),
    ...renderFacts(facts, context),
    '',
    ...hintLines(
      [
        ['See what happened', commandLine('timeline', id)],
        ['Read its logs', commandLine('logs', id)],
        ...(isQuarantined(machine)
          ? [['See its machine', commandLine('explain', machine.node_id)] satisfies Hint]
          : []),
        ...(status === 'failed' ? [['Release it', commandLine('release', id)] satisfies Hint] : []),
      ],
      paint,
    ),
  ];
}
