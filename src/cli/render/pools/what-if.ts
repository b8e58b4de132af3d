/** What another budget would have done to the boots on record: the sentence to read first, then each boot that it concerns. */
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import {
  headlineOf,
  inSeconds,
  predictedSentence,
  sourceWords,
  stuckSentence,
  undecidedSentence,
} from '../../../lifecycle/boots/what-if-words.ts';
import { type ClosingContext, hintLines } from '../allocations/outcome.ts';
import { momentInFull, relative } from '../text/duration.ts';
import { type Column, renderTable } from '../text/table.ts';
import { wrap } from '../text/text.ts';

type FalseKill = WhatIf['false_kills'][number];
type Stuck = WhatIf['stuck'][number];

const killColumns = (nowMs: number): Column<FalseKill>[] => [
  { title: 'NODE', value: ({ node_id }) => node_id },
  { title: 'TOOK', value: ({ seconds }) => inSeconds(seconds), align: 'right' },
  { title: 'OVER BY', value: ({ over_seconds }) => inSeconds(over_seconds), align: 'right' },
  {
    title: 'THEN',
    value: ({ rescued }) => (rescued ? 'rescued' : 'lost'),
    tone: ({ rescued }) => (rescued ? 'warn' : 'bad'),
  },
  {
    title: 'BUDGET IT HAD',
    value: ({ budget_seconds }) => (budget_seconds === null ? '' : inSeconds(budget_seconds)),
    align: 'right',
    drop: 2,
  },
  { title: 'WHEN', value: ({ at }) => relative(at, nowMs), align: 'right', drop: 1 },
];

const foundWords = (seconds: number) =>
  Math.abs(seconds) < 0.05 ? 'just as soon' : `${inSeconds(Math.abs(seconds))} ${seconds > 0 ? 'sooner' : 'later'}`;

const stuckColumns = (nowMs: number): Column<Stuck>[] => [
  { title: 'NODE', value: ({ node_id }) => node_id },
  { title: 'WAITED FOR', value: ({ seconds }) => inSeconds(seconds), align: 'right' },
  { title: 'FOUND', value: ({ sooner_seconds }) => foundWords(sooner_seconds), align: 'right' },
  { title: 'WHEN', value: ({ at }) => relative(at, nowMs), align: 'right', drop: 1 },
];

/** So many of those that are stuck; they say the same again and again. */
const mostStuck = 10;

function section<Row>(title: string, columns: Column<Row>[], rows: Row[], all: number, context: ClosingContext) {
  if (rows.length === 0) return [];
  const more = all - rows.length;
  return [
    '',
    context.paint('strong', title),
    ...renderTable(columns, rows, context),
    ...(more > 0 ? [context.paint('quiet', `… and ${more} more`)] : []),
  ];
}

function compared({ current, budget_seconds, boots }: WhatIf): string {
  const { budget_seconds: standing, budget_source, false_kill_count } = current;
  const source = sourceWords[budget_source];
  if (boots === 0) return `The budget in force is ${inSeconds(standing)}, ${source}.`;
  if (standing === budget_seconds) return `It is the budget in force, ${source}.`;
  return `The budget in force, ${inSeconds(standing)} ${source}, would have given up ${false_kill_count || 'none'} of the same boots.`;
}

function basis({ boots, oldest_at }: WhatIf, { nowMs }: ClosingContext): string {
  if (oldest_at === null) return '';
  return `Asked of ${boots === 1 ? 'the only boot' : `all ${boots} boots`} on record since ${momentInFull(oldest_at)} (${relative(oldest_at, nowMs)}).`;
}

export function whatIfLines(answer: WhatIf, context: ClosingContext): string[] {
  const { paint, width, nowMs, commandLine } = context;
  const { false_kills, false_kill_count, rescued_count, stuck, stuck_count, boots } = answer;
  const lost = false_kill_count > rescued_count;
  const mark = lost ? paint('bad', '✖') : false_kill_count > 0 ? paint('warn', '!') : paint('good', boots ? '✔' : '○');
  const [first = '', ...rest] = wrap(headlineOf(answer), width - 2);
  const says = [
    compared(answer),
    predictedSentence(answer),
    ...(boots === 0 ? [] : [stuckSentence(answer)]),
    undecidedSentence(answer),
    basis(answer, context),
  ].filter((sentence) => sentence !== '');
  const forPhase = answer.phase === 'provision' ? [] : ['--phase', answer.phase];
  const { pool, budget_seconds } = answer;
  return [
    `${mark} ${paint('strong', first)}`,
    ...rest.map((line) => `  ${paint('strong', line)}`),
    ...says.flatMap((sentence) => wrap(sentence, width - 2).map((line) => `  ${line}`)),
    ...section('Given up although they arrived', killColumns(nowMs), false_kills, false_kill_count, context),
    ...section('Stuck, and given up in truth', stuckColumns(nowMs), stuck.slice(0, mostStuck), stuck_count, context),
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
