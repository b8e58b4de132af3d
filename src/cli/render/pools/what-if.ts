/**
 * Renders what another budget would have done to recorded boots: a summary, then the healthy boots
 * it would have failed, and the stuck boots. Both lists are limited.
 */
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import {
  formatSeconds,
  headlineOf,
  predictedSentence,
  sourceWords,
  stuckSentence,
  undecidedSentence,
} from '../../../lifecycle/boots/what-if-words.ts';
import { formatRelative, momentInFull } from '../text/duration.ts';
import { hintLines, type RenderContext } from '../text/hints.ts';
import { type Column, renderTable } from '../text/table.ts';
import { wrap } from '../text/text.ts';

type FalseKill = WhatIf['false_kills'][number];
type Stuck = WhatIf['stuck'][number];

const killColumns = (nowMs: number): Column<FalseKill>[] => [
  { title: 'NODE', value: ({ node_id }) => node_id },
  { title: 'TOOK', value: ({ seconds }) => formatSeconds(seconds), align: 'right' },
  { title: 'OVER BY', value: ({ over_seconds }) => formatSeconds(over_seconds), align: 'right' },
  {
    title: 'RESULT',
    value: ({ rescued }) => (rescued ? 'rescued' : 'lost'),
    tone: ({ rescued }) => (rescued ? 'warn' : 'bad'),
  },
  {
    title: 'BUDGET IT HAD',
    value: ({ budget_seconds }) => (budget_seconds === null ? '' : formatSeconds(budget_seconds)),
    align: 'right',
    drop: 2,
  },
  { title: 'WHEN', value: ({ at }) => formatRelative(at, nowMs), align: 'right', drop: 1 },
];

/** `formatSeconds` would print a smaller difference as zero. */
const minDifferenceSeconds = 0.05;

const differenceText = (seconds: number) =>
  Math.abs(seconds) < minDifferenceSeconds
    ? 'at the same time'
    : `${formatSeconds(Math.abs(seconds))} ${seconds > 0 ? 'sooner' : 'later'}`;

const stuckColumns = (nowMs: number): Column<Stuck>[] => [
  { title: 'NODE', value: ({ node_id }) => node_id },
  { title: 'WAITED FOR', value: ({ seconds }) => formatSeconds(seconds), align: 'right' },
  { title: 'FOUND', value: ({ sooner_seconds }) => differenceText(sooner_seconds), align: 'right' },
  { title: 'WHEN', value: ({ at }) => formatRelative(at, nowMs), align: 'right', drop: 1 },
];

const maxStuck = 10;

function section<Row>(title: string, columns: Column<Row>[], rows: Row[], total: number, context: RenderContext) {
  if (rows.length === 0) return [];
  const more = total - rows.length;
  return [
    '',
    context.paint('strong', title),
    ...renderTable(columns, rows, context),
    ...(more > 0 ? [context.paint('quiet', `… and ${more} more`)] : []),
  ];
}

function currentBudgetSentence({ current, budget_seconds, arrived_count }: WhatIf): string {
  const { budget_seconds: currentSeconds, budget_source, false_kill_count } = current;
  const source = sourceWords[budget_source];
  if (arrived_count === 0) return `The current budget is ${formatSeconds(currentSeconds)}, ${source}.`;
  if (currentSeconds === budget_seconds) return `This is the current budget, ${source}.`;
  return `The current budget (${formatSeconds(currentSeconds)}, ${source}) would have failed ${false_kill_count || 'none'} of the boots that arrived.`;
}

function basisSentence({ boots, oldest_at }: WhatIf, { nowMs }: RenderContext): string {
  if (oldest_at === null) return '';
  return `Based on ${boots === 1 ? '1 boot' : `${boots} boots`} recorded since ${momentInFull(oldest_at)} (${formatRelative(oldest_at, nowMs)}).`;
}

export function whatIfLines(answer: WhatIf, context: RenderContext): string[] {
  const { paint, width, nowMs, commandLine } = context;
  const { false_kills, false_kill_count, rescued_count, stuck, stuck_count, boots, arrived_count } = answer;
  const losesBoots = false_kill_count > rescued_count;
  const mark = losesBoots
    ? paint('bad', '✖')
    : false_kill_count > 0
      ? paint('warn', '!')
      : arrived_count > 0
        ? paint('good', '✔')
        : '○';
  const [first = '', ...rest] = wrap(headlineOf(answer), width - 2);
  const sentences = [
    currentBudgetSentence(answer),
    predictedSentence(answer),
    ...(boots === 0 ? [] : [stuckSentence(answer)]),
    undecidedSentence(answer),
    basisSentence(answer, context),
  ].filter((sentence) => sentence !== '');
  const forPhase = answer.phase === 'provision' ? [] : ['--phase', answer.phase];
  const { pool, budget_seconds } = answer;
  return [
    `${mark} ${paint('strong', first)}`,
    ...rest.map((line) => `  ${paint('strong', line)}`),
    ...sentences.flatMap((sentence) => wrap(sentence, width - 2).map((line) => `  ${line}`)),
    ...section('Would have failed although healthy', killColumns(nowMs), false_kills, false_kill_count, context),
    ...section('Stuck boots', stuckColumns(nowMs), stuck.slice(0, maxStuck), stuck_count, context),
    '',
    ...hintLines(
      [
        ['See how long boots take', commandLine('boots', pool, ...forPhase)],
        ['Set this budget', commandLine('budget', pool, String(budget_seconds), ...forPhase, '--reason', '"…"')],
      ],
      paint,
    ),
  ];
}
