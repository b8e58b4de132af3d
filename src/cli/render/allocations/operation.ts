/** Renders operations as text: as rows of a table, and one operation with its steps. */
import type { Operation, Step } from '../../../contract/operation.ts';
import { titleLine } from '../machines/node.ts';
import {
  formatAgeSince,
  formatDuration,
  formatMoment,
  formatRelative,
  formatUsual,
  secondsSince,
} from '../text/duration.ts';
import { operationTones, stepMark, stepTone } from '../text/palette.ts';
import { type Column, type Fact, type Fit, renderFacts, renderTable } from '../text/table.ts';
import { printable } from '../text/text.ts';

/** Returns how long an operation or step ran, or has been running. Null if it has not started. */
const runningSeconds = ({ started_at, finished_at }: Pick<Operation, 'started_at' | 'finished_at'>, nowMs: number) => {
  if (!started_at) return null;
  return finished_at ? (Date.parse(finished_at) - Date.parse(started_at)) / 1000 : secondsSince(started_at, nowMs);
};

const runningTime = (span: Pick<Operation, 'started_at' | 'finished_at'>, nowMs: number) => {
  const seconds = runningSeconds(span, nowMs);
  return seconds === null ? '' : formatDuration(seconds);
};

export const operationColumns = (nowMs: number): Column<Operation>[] => [
  { title: 'OPERATION', value: (row) => row.workflow_id },
  { title: 'KIND', value: (row) => row.kind, drop: 2 },
  { title: 'STATUS', value: (row) => row.status, tone: (row) => operationTones[row.status] },
  {
    title: 'STEP',
    value: ({ progress }) => `${progress.step}/${progress.total_steps} ${printable(progress.label)}`,
    shrinks_to: 8,
    drop: 3,
  },
  { title: 'TOOK', value: (row) => runningTime(row, nowMs), align: 'right' },
  { title: 'AGE', value: (row) => formatAgeSince(row.created_at, nowMs), align: 'right', drop: 6 },
  { title: 'WHY', value: (row) => printable(row.error?.message ?? ''), drop: 5, below: true, optional: true },
  // A narrow table drops this column first, and prints its value below the row.
  { title: 'TARGET', value: (row) => row.allocation_id ?? row.node_id ?? '', drop: 7, below: true, optional: true },
];

const stepColumns = (nowMs: number): Column<Step>[] => [
  { title: '', value: (row) => stepMark(row.status), tone: (row) => stepTone(row.status) },
  { title: 'STEP', value: (row) => `${row.step} ${printable(row.label)}` },
  { title: 'STATUS', value: (row) => printable(row.status), tone: (row) => stepTone(row.status) },
  { title: 'TOOK', value: (row) => runningTime(row, nowMs), align: 'right' },
  {
    title: 'USUALLY',
    value: (row) => (row.usual_seconds === null ? '' : formatUsual(row.usual_seconds)),
    align: 'right',
    optional: true,
  },
  { title: 'TRIES', value: (row) => (row.tries > 1 ? String(row.tries) : ''), align: 'right', optional: true },
  { title: 'WHY', value: (row) => printable(row.error?.message ?? ''), drop: 5, below: true, optional: true },
];

export function operationLines(operation: Operation, nowMs: number, fit: Fit): string[] {
  const { error } = operation;
  const facts: Fact[] = [
    ['allocation', operation.allocation_id],
    ['node', operation.node_id],
    ['by', operation.actor && printable(operation.actor.name)],
    ['attempt', operation.attempt > 1 ? String(operation.attempt) : null],
    ['message', printable(operation.progress.message)],
    ['error', error && `${printable(error.message)}  [${error.code}, owner: ${error.owner_layer}]`, 'bad'],
    ['created', formatMoment(operation.created_at, nowMs)],
    ['finished', formatMoment(operation.finished_at, nowMs)],
    ['took', runningTime(operation, nowMs)],
    ['correlation', operation.correlation_id],
  ];
  const tone = operationTones[operation.status];
  const since = operation.finished_at
    ? formatRelative(operation.finished_at, nowMs)
    : `for ${formatAgeSince(operation.started_at ?? operation.created_at, nowMs)}`;
  return [
    titleLine(operation.workflow_id, operation.kind, operation.status, tone, since, fit),
    ...renderFacts(facts, fit),
    ...(operation.steps.length > 0 ? ['', ...renderTable(stepColumns(nowMs), operation.steps, fit)] : []),
  ];
}
