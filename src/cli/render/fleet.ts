/** The live table of `watch`. */
import type { Node } from '../../contract/node.ts';
import { type Fleet, nodesInOrder, operationOn, unplacedAllocations } from '../fleet.ts';
import { countByStatus } from '../print-listing.ts';
import { allocationColumns } from './allocation.ts';
import { ageSince } from './duration.ts';
import { nodeConcern } from './node.ts';
import { nodeTones } from './palette.ts';
import { type Column, type Fit, renderTable } from './table.ts';
import { printable, truncate } from './text.ts';

export interface FleetView {
  server: string;
  /** `live`, or what is wrong with the connection. */
  connection: string;
  nowMs: number;
  rows: number;
}

/** What is being done with a node, or else why it stands where it stands. */
function doing(fleet: Fleet, node: Node, nowMs: number): string {
  const progress = operationOn(fleet, node)?.progress;
  const concern = nodeConcern(node, nowMs);
  if (!progress) return concern;
  const step = `${progress.step}/${progress.total_steps} ${printable(progress.label)} ${Math.floor(progress.percent)} %`;
  return concern ? `${step} · ${concern}` : step;
}

const columns = (fleet: Fleet, nowMs: number): Column<Node>[] => [
  { title: 'NODE', value: (node) => node.node_id },
  { title: 'NAME', value: (node) => node.name, shrinks_to: 8, drop: 3 },
  { title: 'POOL', value: (node) => node.pool, shrinks_to: 6, drop: 2 },
  { title: 'STATUS', value: (node) => node.status, tone: (node) => nodeTones[node.status] },
  { title: 'FOR', value: (node) => ageSince(node.status_since, nowMs), align: 'right' },
  { title: 'SEEN', value: (node) => ageSince(node.last_seen_at, nowMs), align: 'right', drop: 4 },
  { title: 'DOING', value: (node) => doing(fleet, node, nowMs), shrinks_to: 12, drop: 1, optional: true },
  { title: 'ALLOCATION', value: (node) => node.allocation_id ?? '', drop: 7, optional: true },
];

/** As many lines as there is room for; the last says how many are missing. */
function clip(lines: string[], room: number, paint: Fit['paint']): string[] {
  if (lines.length <= room) return lines;
  const kept = Math.max(1, room - 1);
  return [...lines.slice(0, kept), paint('quiet', `… and ${lines.length - kept} more; a higher window shows them`)];
}

export function fleetLines(fleet: Fleet, view: FleetView, fit: Fit): string[] {
  const nodes = nodesInOrder(fleet);
  const unplaced = unplacedAllocations(fleet);
  const trouble = view.connection !== 'live';
  const counts = countByStatus('node', nodes);
  const title = truncate(`${view.server} · ${view.connection} · ${counts}`, fit.width);
  const waiting =
    unplaced.length === 0
      ? []
      : ['', 'Without a machine:', ...renderTable(allocationColumns(view.nowMs), unplaced, fit)];
  const table = nodes.length === 0 ? ['No nodes.'] : renderTable(columns(fleet, view.nowMs), nodes, fit);
  const foot = fit.paint('quiet', 'Ctrl-C ends');
  // Title, blank line, blank line and foot frame the table.
  const room = view.rows - 5;
  const shownWaiting = clip(waiting, Math.floor(room / 3), fit.paint);
  return [
    fit.paint(trouble ? 'warn' : 'strong', title),
    '',
    ...clip(table, room - shownWaiting.length, fit.paint),
    ...shownWaiting,
    '',
    foot,
  ];
}
