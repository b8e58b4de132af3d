/** Renders allocations as table columns, and one allocation in full. */
import type { Allocation } from '../../../contract/allocation.ts';
import type { FoundRequest } from '../../../contract/fleet/find.ts';
import type { Node } from '../../../contract/node.ts';
import { describeAllocationStatus, isRescueOver } from '../../../lifecycle/deadlines/rescue-window.ts';
import { labelText, titleLine } from '../machines/node.ts';
import { formatAgeSince, formatMoment, formatRelative } from '../text/duration.ts';
import { allocationTones } from '../text/palette.ts';
import { type Column, type Fact, type Fit, renderFacts } from '../text/table.ts';
import { printable, truncate } from '../text/text.ts';
import { isOver, listText } from './progress.ts';
import { failedReleaseConcern, isReleaseFailed, nextTrySentence } from './release-failure.ts';

/**
 * Returns the progress of an allocation, or why it makes no progress. Empty if it is active without
 * a particular reason.
 */
export function allocationConcern(allocation: Allocation, nowMs: number): string {
  const { progress, reason, status, verdict } = allocation;
  if (progress && !isOver(progress)) return listText(progress);
  if (isReleaseFailed(allocation)) return failedReleaseConcern(allocation, nowMs);
  return status === 'active' && reason === verdict?.reason ? '' : printable(reason ?? '');
}

export const allocationColumns = (nowMs: number): Column<Allocation>[] => [
  { title: 'ALLOCATION', value: (row) => row.allocation_id },
  { title: 'NAME', value: (row) => row.name ?? '', shrinks_to: 8, drop: 3, optional: true },
  { title: 'POOL', value: (row) => row.pool, shrinks_to: 6, drop: 2 },
  { title: 'STATUS', value: (row) => row.status, tone: (row) => allocationTones[row.status] },
  { title: 'FOR', value: (row) => formatAgeSince(row.status_since, nowMs), align: 'right' },
  { title: 'WHY', value: (row) => allocationConcern(row, nowMs), drop: 5, below: true, optional: true },
  { title: 'AGE', value: (row) => formatAgeSince(row.created_at, nowMs), align: 'right', drop: 6 },
  { title: 'NODE', value: (row) => row.node_id ?? '', drop: 8, optional: true },
  { title: 'TENANT', value: (row) => row.tenant, shrinks_to: 6, drop: 7 },
];

const machineStatus = (machine: Node, nowMs: number) =>
  [`${machine.status} for ${formatAgeSince(machine.status_since, nowMs)}`, printable(machine.verdict?.reason ?? '')]
    .filter(Boolean)
    .join(': ');

/**
 * Lists the requests that touched an allocation, oldest first. Prints nothing for a single request:
 * that one created the allocation, and its id is shown above.
 */
export function requestLines(requests: FoundRequest[], nowMs: number, { paint, width }: Fit): string[] {
  if (requests.length < 2) return [];
  return [
    '',
    paint('strong', 'Requests that touched this allocation'),
    ...requests.map(({ correlation_id, at, summary, actor }) => {
      const text = `${formatRelative(at, nowMs)}  ${printable(summary)}${actor ? ` — by ${printable(actor)}` : ''}`;
      return `  ${correlation_id}  ${truncate(text, width - correlation_id.length - 4)}`;
    }),
  ];
}

export function allocationLines(allocation: Allocation, machine: Node | null, nowMs: number, fit: Fit): string[] {
  // The reason still says that the machine became ready, which is no longer true.
  const isReasonOutdated = allocation.status === 'active' && machine !== null && machine.status !== 'ready';
  const { verdict, budget_seconds, budget_source } = allocation;
  const budget = budget_seconds === null ? '' : ` · budget ${budget_seconds} s from ${budget_source}`;
  const facts: Fact[] = [
    ['pool', allocation.pool],
    ['tenant', allocation.tenant],
    ['node', allocation.node_id],
    ['its machine', isReasonOutdated && machine ? machineStatus(machine, nowMs) : null, 'warn'],
    ['endpoint', allocation.endpoint && printable(allocation.endpoint)],
    ['operation', allocation.workflow_id],
    ['because', isReasonOutdated || allocation.reason === verdict?.reason ? null : printable(allocation.reason ?? '')],
    ['verdict', verdict && `${printable(verdict.reason)}  [${verdict.rule}, ${formatRelative(verdict.at, nowMs)}]`],
    ['owner', allocation.owner_layer],
    ['next try', allocation.retry_at && nextTrySentence(allocation, nowMs)],
    [
      'deadline',
      isRescueOver(allocation, nowMs) || !allocation.deadline_at
        ? null
        : formatMoment(allocation.deadline_at, nowMs) + budget,
    ],
    ['labels', printable(labelText(allocation.labels))],
    ['created', formatMoment(allocation.created_at, nowMs)],
    ['active', formatMoment(allocation.active_at, nowMs)],
    ['released', formatMoment(allocation.released_at, nowMs)],
    ['correlation', allocation.correlation_id],
  ];
  const since = `for ${formatAgeSince(allocation.status_since, nowMs)}`;
  const tone = allocationTones[allocation.status];
  return [
    titleLine(allocation.allocation_id, allocation.name, allocation.status, tone, since, fit),
    fit.paint('quiet', `  ${describeAllocationStatus(allocation, nowMs)}`),
    ...renderFacts(facts, fit),
  ];
}
