/** Renders findings with both sides: our record, and what was found. */
import type { Finding, FindingDecided, RowDifference } from '../../../contract/supervision/finding.ts';
import { formatRelative, formatUsual, momentsInFull } from '../text/duration.ts';
import type { RenderContext } from '../text/hints.ts';
import type { Column } from '../text/table.ts';
import { printable } from '../text/text.ts';

const valueText = (value: unknown): string =>
  Array.isArray(value) ? `${value.length} listed` : typeof value === 'string' ? value : JSON.stringify(value);

/** `status ready, node_instance_id inst_…` */
const sideText = (side: Finding['ours']): string =>
  momentsInFull(
    printable(
      Object.entries(side)
        .filter(([, value]) => value !== null)
        .map(([name, value]) => `${name} ${valueText(value)}`)
        .join(', '),
    ),
  );

/** Shows null values too, because a null column of a row is a value. */
const sideWithNulls = (side: Finding['ours']): string =>
  momentsInFull(
    printable(
      Object.entries(side)
        .map(([name, value]) => `${name} ${value === null ? 'none' : valueText(value)}`)
        .join(', '),
    ),
  );

/** `3 failures within 24 h, 2 allowed`; null for findings without counts. */
function failureCount({ ours, theirs }: Pick<Finding, 'ours' | 'theirs'>): string | null {
  const { failures_allowed, window_seconds } = ours;
  if (typeof theirs.failures !== 'number' || typeof window_seconds !== 'number') return null;
  return `${theirs.failures} failures within ${formatUsual(window_seconds)}, ${failures_allowed} allowed`;
}

/** For these kinds, the sentence alone says everything. */
const sentenceOnly: ReadonlySet<Finding['kind']> = new Set(['boot-shift', 'token']);

export const bothSides = ({ kind, says, ours, theirs }: Pick<Finding, 'kind' | 'says' | 'ours' | 'theirs'>): string =>
  sentenceOnly.has(kind)
    ? momentsInFull(printable(says))
    : `${says}: ${failureCount({ ours, theirs }) ?? `our record: ${sideText(ours)}; found: ${sideText(theirs)}`}`;

const remedyText = ({ ways_out }: Pick<Finding, 'ways_out'>): string => printable(ways_out.join(' '));

export const differenceColumns: Column<RowDifference>[] = [
  { title: 'ROW', value: ({ subject }) => subject },
  { title: 'POOL', value: ({ pool }) => pool, drop: 1 },
  {
    title: 'DIFFERS',
    value: ({ ours, theirs }) => {
      if (Object.keys(theirs).length === 0) return `row: ${sideWithNulls(ours)}; no evidence`;
      if (Object.keys(ours).length === 0) return `no row; evidence: ${sideWithNulls(theirs)}`;
      return `row: ${sideWithNulls(ours)}; evidence: ${sideWithNulls(theirs)}`;
    },
    below: true,
  },
];

export const findingColumns = (nowMs: number): Column<Finding>[] => [
  { title: 'FINDING', value: (finding) => finding.finding_id },
  { title: 'KIND', value: (finding) => finding.kind, drop: 4 },
  { title: 'ABOUT', value: (finding) => finding.subject, shrinks_to: 12 },
  { title: 'POOL', value: (finding) => finding.pool ?? '-', drop: 5 },
  { title: 'OWNER', value: (finding) => finding.owner_layer, drop: 3 },
  { title: 'STATUS', value: (finding) => finding.status, tone: ({ status }) => (status === 'open' ? 'warn' : 'quiet') },
  { title: 'SINCE', value: (finding) => formatRelative(finding.opened_at ?? finding.first_seen_at, nowMs) },
  { title: 'WHAT', value: bothSides, below: true },
  { title: 'TO DO', value: remedyText, below: true },
];

export function decidedLines(
  verb: 'repair' | 'accept',
  { finding, dry_run, predicts }: FindingDecided,
  { paint }: Pick<RenderContext, 'paint'>,
): string[] {
  const effect = momentsInFull(printable(predicts.says));
  return dry_run
    ? [
        `${paint('warn', '○')} ${paint('strong', 'Dry run: nothing was done.')} ${verb} ${finding.finding_id} would mean: ${effect}`,
      ]
    : [`${paint('good', '✔')} ${paint('strong', `${finding.finding_id} is ${finding.status}`)}: ${effect}`];
}
