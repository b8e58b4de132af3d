/** Renders the live table of `slipway watch`. */
import type { Node } from '../../../contract/node.ts';
import { countByStatus } from '../../terminal/print-listing.ts';
import { type Fleet, isStuckInRelease, nodesInOrder, operationOn, unplacedAllocations } from '../../wait/fleet.ts';
import { allocationColumns } from '../allocations/allocation.ts';
import { listText } from '../allocations/progress.ts';
import { failedReleaseConcern } from '../allocations/release-failure.ts';
import { formatAgeSince } from '../text/duration.ts';
import { type Column, type Fit, renderTable } from '../text/table.ts';
import { truncate } from '../text/text.ts';
import { nodeConcern, nodeTone } from './node.ts';

export interface FleetView {
  server: string;
  /** `live`, or the state of the connection. */
  connection: string;
  nowMs: number;
  rows: number;
}

/** Returns the progress of the node's operation, or why the node has its status. */
function activityOf(fleet: Fleet, node: Node, nowMs: number): string {
  const allocation = node.allocation_id === null ? undefined : fleet.allocations.get(node.allocation_id);
  if (allocation && isStuckInRelease(fleet, node)) return failedReleaseConcern(allocation, nowMs);
  const progress = operationOn(fleet, node)?.progress;
  const concern = nodeConcern(node, nowMs);
  if (!progress) return concern;
  const step = listText(progress);
  return concern ? `${step} · ${concern}` : step;
}

/** With `isWhole`, a long reason goes below its row; otherwise it is cut. */
const columns = (fleet: Fleet, nowMs: number, isWhole: boolean): Column<Node>[] => [
  { title: 'NODE', value: (node) => node.node_id },
  { title: 'NAME', value: (node) => node.name, shrinks_to: 8, drop: 3 },
  { title: 'POOL', value: (node) => node.pool, shrinks_to: 6, drop: 2 },
  { title: 'STATUS', value: (node) => node.status, tone: nodeTone },
  { title: 'FOR', value: (node) => formatAgeSince(node.status_since, nowMs), align: 'right' },
  {
    title: 'DOING',
    value: (node) => activityOf(fleet, node, nowMs),
    optional: true,
    ...(isWhole ? { drop: 5, below: true } : { shrinks_to: 24, drop: 1 }),
  },
  { title: 'ALLOCATION', value: (node) => node.allocation_id ?? '', drop: 7, optional: true },
];

/** Cuts the lines to the available rows; the last line says how many are missing. */
function clip(lines: string[], room: number, paint: Fit['paint']): string[] {
  if (lines.length <= room) return lines;
  const shownRows = Math.max(1, room - 1);
  return [
    ...lines.slice(0, shownRows),
    paint('quiet', `… and ${lines.length - shownRows} more; a taller window shows them`),
  ];
}

function nodeTable(fleet: Fleet, nodes: Node[], nowMs: number, room: number, fit: Fit): string[] {
  if (nodes.length === 0) return ['No nodes.'];
  const whole = renderTable(columns(fleet, nowMs, true), nodes, fit);
  return whole.length <= room ? whole : clip(renderTable(columns(fleet, nowMs, false), nodes, fit), room, fit.paint);
}

/**
 * The rows around the tables: title, counts, two blank lines, the footer, and the line of the
 * cursor.
 */
const frameRows = 6;

export function fleetLines(fleet: Fleet, view: FleetView, fit: Fit): string[] {
  const { nowMs } = view;
  const nodes = nodesInOrder(fleet);
  const unplaced = unplacedAllocations(fleet);
  const room = view.rows - frameRows;
  const waiting =
    unplaced.length === 0 ? [] : ['', 'Without a machine:', ...renderTable(allocationColumns(nowMs), unplaced, fit)];
  const waitingLines = clip(waiting, Math.floor(room / 2), fit.paint);
  const tone = view.connection === 'live' ? 'good' : 'warn';
  return [
    `${fit.paint('strong', view.server)} · ${fit.paint(tone, view.connection)}`,
    truncate(countByStatus('node', nodes), fit.width),
    '',
    ...nodeTable(fleet, nodes, nowMs, room - waitingLines.length, fit),
    ...waitingLines,
    '',
    fit.paint('quiet', 'Press Ctrl-C to stop'),
  ];
}
