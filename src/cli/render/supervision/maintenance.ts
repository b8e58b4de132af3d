/** Renders maintenance windows as table columns. */
import type { Maintenance } from '../../../contract/supervision/supervision.ts';
import { labelText } from '../machines/node.ts';
import { formatElapsed, formatRelative, secondsSince } from '../text/duration.ts';
import type { Column } from '../text/table.ts';
import { printable } from '../text/text.ts';

/** `pool gpu, zone eu-1, rack=7`: the window covers machines that match all of these. */
export const coverage = ({ pool, zone, labels }: Pick<Maintenance, 'pool' | 'zone' | 'labels'>): string =>
  [pool && `pool ${pool}`, zone && `zone ${zone}`, printable(labelText(labels))].filter(Boolean).join(', ');

const stateText = ({ starts_at, ends_at }: Maintenance, nowMs: number) =>
  secondsSince(starts_at, nowMs) < 0
    ? `begins ${formatRelative(starts_at, nowMs)}`
    : `open, ends in ${formatElapsed(-secondsSince(ends_at, nowMs))}`;

export const maintenanceColumns = (nowMs: number): Column<Maintenance>[] => [
  { title: 'WINDOW', value: (window) => window.name },
  { title: 'COVERS', value: coverage, shrinks_to: 16 },
  {
    title: 'STATE',
    value: (window) => stateText(window, nowMs),
    tone: (window) => (secondsSince(window.starts_at, nowMs) < 0 ? 'quiet' : 'warn'),
  },
  { title: 'BY', value: (window) => printable(window.actor?.name ?? ''), drop: 6, optional: true },
  { title: 'WHY', value: (window) => printable(window.reason), drop: 5, below: true },
];
