/**
 * Renders a replay: how many decisions would differ, each with its node, and what cannot be judged.
 */
import type { ReplayDifference, ReplayedPool, ReplayReply } from '../../../contract/supervision/replay.ts';
import { type DifferenceKind, differenceKinds } from '../../../lifecycle/replay/difference.ts';
import { formatElapsed, formatUsual, momentInFull, momentsInFull } from '../text/duration.ts';
import { hintLines } from '../text/hints.ts';
import type { Tone } from '../text/palette.ts';
import { type Column, type Fit, renderTable } from '../text/table.ts';
import { formatCount, printable, wrap } from '../text/text.ts';

interface ReplayContext extends Fit {
  /** The maximum number of differences to list per pool. */
  limit: number;
  commandLine(...words: string[]): string;
  /** The file, if `slipway apply` would accept it. */
  file: string | null;
}

const tones: Record<(typeof differenceKinds)[DifferenceKind]['weight'], Tone | undefined> = {
  bad: 'bad',
  good: 'good',
  even: undefined,
};

const weightOf = ({ kind }: { kind: DifferenceKind }) => differenceKinds[kind].weight;

/** Returns by how much the decision would come later; negative if sooner. */
const secondsLater = ({ was, would_be }: ReplayDifference): number | null =>
  was.at && would_be.at ? (Date.parse(would_be.at) - Date.parse(was.at)) / 1000 : null;

/** Returns the mean shift of verdicts that differ only in time. */
function meanShift(kind: DifferenceKind, differences: readonly ReplayDifference[]): string {
  const sameVerdicts = differences.filter((each) => each.kind === kind && each.was.verdict === each.would_be.verdict);
  const shifts = sameVerdicts.map(secondsLater).filter((seconds) => seconds !== null);
  if (shifts.length === 0) return '';
  const mean = shifts.reduce((sum, seconds) => sum + Math.abs(seconds), 0) / shifts.length;
  return shifts.length === 1 ? ` by ${formatUsual(mean)}` : ` by ${formatUsual(mean)} on average`;
}

const worstFirst = ['bad', 'good', 'even'];
const byWeight = (a: { kind: DifferenceKind }, b: { kind: DifferenceKind }) =>
  worstFirst.indexOf(weightOf(a)) - worstFirst.indexOf(weightOf(b));

function totals({ kinds, differences }: ReplayedPool): string[] {
  const ordered = kinds.toSorted((a, b) => byWeight(a, b) || b.count - a.count);
  return ordered.map(({ kind, count }) => {
    const { one, many } = differenceKinds[kind];
    return `${count} ${count === 1 ? one : many}${meanShift(kind, differences)}`;
  });
}

function headline(pool: ReplayedPool, { paint, width }: ReplayContext): string[] {
  const { decisions, otherwise, boots, absences } = pool;
  const name = paint('strong', pool.pool);
  if (decisions === 0) return [`${paint('quiet', '·')} ${name}: nothing is recorded.`];
  const record = `${formatCount(boots, 'boot phase')}, ${formatCount(absences, 'absence')}`;
  if (otherwise === 0) return [`${paint('good', '✔')} ${name}: no decision would differ (${record} recorded).`];
  const isBad = pool.kinds.some((each) => weightOf(each) === 'bad');
  const sum = `${otherwise} of ${formatCount(decisions, 'decision')} would differ`;
  return [
    `${isBad ? paint('bad', '✖') : paint('warn', '!')} ${name}: ${paint('strong', sum)} (${record} recorded):`,
    ...totals(pool).flatMap((total) =>
      wrap(total, width - 4).map((line, i) => (i === 0 ? `  – ${line}` : `    ${line}`)),
    ),
  ];
}

/** `failed 6m 00s later`: the verdict, and its distance from the actual one. */
function wouldBe(difference: ReplayDifference): string {
  const { verdict } = difference.would_be;
  const later = secondsLater(difference);
  if (later === null || Math.abs(later) < 1) return verdict;
  return `${verdict} ${formatElapsed(Math.abs(later))} ${later > 0 ? 'later' : 'sooner'}`;
}

const reasonText = ({ would_be, sure }: ReplayDifference): string =>
  `${momentsInFull(printable(would_be.reason))}${sure ? '' : ' (not certain)'}`;

const columns: Column<ReplayDifference>[] = [
  { title: 'WHEN', value: ({ was, at }) => momentInFull(was.at ?? at) },
  { title: 'NODE', value: ({ node_id }) => node_id },
  { title: 'RULE', value: ({ rule }) => rule, drop: 6 },
  { title: 'WAS', value: ({ was }) => was.verdict },
  { title: 'WOULD BE', value: wouldBe, tone: (each) => tones[weightOf(each)] },
  { title: 'WHY', value: reasonText, drop: 5, below: true },
];

function table(pool: ReplayedPool, context: ReplayContext): string[] {
  if (pool.differences.length === 0) return [];
  const { paint, width, limit } = context;
  const unlistedCount = pool.otherwise - Math.min(limit, pool.differences.length);
  // The sort is stable, so the newest stay first within each weight.
  const listed = pool.differences.toSorted(byWeight).slice(0, limit);
  const rows = renderTable(columns, listed, { paint, width: width - 2 });
  return [
    '',
    ...rows.map((line) => `  ${line}`),
    ...(unlistedCount > 0 ? [`  ${paint('quiet', `… and ${unlistedCount} more; see --limit, or --json`)}`] : []),
  ];
}

const maxNamed = 3;

function unjudgedLines({ untold }: ReplayedPool, { paint, width }: ReplayContext): string[] {
  if (untold.length === 0) return [];
  const lines = untold.flatMap(({ count, says, node_ids }) => {
    const named = node_ids.slice(0, maxNamed).join(', ');
    const nodes = named && ` (${named}${(count ?? 0) > maxNamed ? ', …' : ''})`;
    const text = `${count === null ? '' : `${count}: `}${says}${nodes}`;
    return wrap(text, width - 4).map((line, i) => (i === 0 ? `  – ${line}` : `    ${line}`));
  });
  return ['', `  ${paint('strong', 'Could not be judged:')}`, ...lines];
}

export function replayLines({ since, until, pools }: ReplayReply, context: ReplayContext): string[] {
  const { paint, commandLine, file } = context;
  const [first] = pools.flatMap(({ differences }) => differences).toSorted(byWeight);
  const span = `From ${momentInFull(since)} to ${momentInFull(until)}. Nothing was changed.`;
  const hints: [string, string][] = [
    ...(first ? [['Look at one node', commandLine('timeline', first.node_id)] satisfies [string, string]] : []),
    ...(file === null ? [] : [['Apply the policy', commandLine('apply', '-f', file)] satisfies [string, string]]),
  ];
  return [
    paint('quiet', span),
    ...pools.flatMap((pool) => [
      '',
      ...headline(pool, context),
      ...table(pool, context),
      ...unjudgedLines(pool, context),
    ]),
    ...(hints.length > 0 ? ['', ...hintLines(hints, paint)] : []),
  ];
}
