/**
 * Why a machine stands where it stands and what comes next, for somebody who was asleep a minute
 * ago.
 */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { BudgetSource, Node } from '../../../contract/node.ts';
import type { Progress } from '../../../contract/progress.ts';
import type { Explanation } from '../../../contract/supervision/explanation.ts';
import type { Finding } from '../../../contract/supervision/finding.ts';
import { type ClosingContext, hintLines } from '../allocations/outcome.ts';
import { progressLines, raiseBar } from '../allocations/progress.ts';
import { failedReleaseSentences, isReleaseFailed, type ReleaseFailure } from '../allocations/release-failure.ts';
import { statementOf } from '../evidence/evidence.ts';
import { bothSides } from '../supervision/finding.ts';
import { age, ageSince, elapsed, momentInFull, momentsInFull, relative, secondsSince } from '../text/duration.ts';
import type { Tone } from '../text/palette.ts';
import { type Fact, renderFacts } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';
import { openActionLines } from './actions.ts';
import { heldSentences, wouldHaveSentence } from './held.ts';
import { nodeTone, titleLine } from './node.ts';

const indent = '  ';

export const sentence = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

export const paragraph = (text: string, { width, paint }: ClosingContext, tone?: Tone): string[] =>
  wrap(printable(text), width - indent.length).map((line) => indent + paint(tone, line));

export const readable = (text: string) => momentsInFull(printable(text));

const budgetWords: Record<BudgetSource, string> = {
  allocation: 'as its allocation asked',
  learned: 'as learned from the boots of its pool',
  pool: 'as its pool says',
  class: 'as its runtime class says',
  default: 'the server’s default',
};

function deadlineSentence({ deadline_at, budget_seconds, budget_source }: Explanation, nowMs: number): string | null {
  if (!deadline_at) return null;
  const given =
    budget_seconds === null || budget_source === null
      ? ''
      : ` It was given ${elapsed(budget_seconds)} for this, ${budgetWords[budget_source]}.`;
  const left = secondsSince(deadline_at, nowMs);
  const until = `until ${momentInFull(deadline_at)}`;
  return left < 0 ? `It has ${age(-left)} left, ${until}.${given}` : `It is ${age(left)} overdue, ${until}.${given}`;
}

export const waitingSentence = (waiting_for: string): string => sentence(`It waits for ${readable(waiting_for)}`);

/** Its verdict did not take effect, so what its status means is not how it is. */
const isInDoubt = ({ held, would_have }: Explanation) => held !== null || would_have !== null;

/** It waits for the next try of its release, which is told with what failed. */
const isStuck = ({ status, holder }: Explanation) => status === 'cleaning' && isReleaseFailed(holder);

/** What to do first about a machine that is set aside: it is done to what stands in the way. */
const firstHints = ({ holder, residue, status }: Explanation, { commandLine }: ClosingContext): [string, string][] => {
  const uses = status === 'quarantined' && holder && !['failed', 'released'].includes(holder.status);
  return [
    ...(uses
      ? [['Release what uses it', commandLine('release', holder.allocation_id)] satisfies [string, string]]
      : []),
    ...residue.flatMap((rest): [string, string][] => [
      ['See whether it is still there', commandLine('residue', 'verify', rest, '--reason', '"…"')],
      ['Destroy what is left', commandLine('residue', 'delete', rest, '--reason', '"…"')],
      ['Take it over', commandLine('residue', 'adopt', rest, '--reason', '"…"')],
    ]),
  ];
};

/** Older servers recorded no message apart from the reason. */
function releaseFailureIn({ because }: Explanation): ReleaseFailure | null {
  const fact = because.evidence.find(({ kind }) => kind === 'allocation.release_failed');
  const { stage, owner_layer, message } = (fact?.data.evidence ?? {}) as Record<string, unknown>;
  if (typeof stage !== 'string' || typeof owner_layer !== 'string' || typeof message !== 'string') return null;
  return { step: stage, owner_layer, message };
}

function story(told: Explanation, node: Node, nowMs: number): string {
  const { because, status } = told;
  const cited = [because.rule, because.owner && !isStuck(told) && `owner: ${because.owner}`].filter(Boolean).join(', ');
  const by = cited && ` [${cited}]`;
  const became = `It became ${status} ${relative(because.at, nowMs)}`;
  const failure =
    told.holder &&
    isReleaseFailed(told.holder) &&
    failedReleaseSentences({ ...told.holder, failure: releaseFailureIn(told) }, nowMs);
  return [
    // What failed comes first; of one in release, what its status means adds nothing to that.
    failure,
    !isInDoubt(told) && !isStuck(told) && told.means,
    sentence(because.verdict && !isStuck(told) ? `${became}: ${readable(because.verdict)}${by}` : became + by),
    // A hold is told apart, and says this itself.
    told.waiting_for && !told.held && !isStuck(told) && waitingSentence(told.waiting_for),
    deadlineSentence(told, nowMs),
    node.last_seen_at && `It was last heard of ${relative(node.last_seen_at, nowMs)}.`,
  ]
    .filter(Boolean)
    .join(' ');
}

/**
 * The moment of a verdict that is held back or only observed has passed, and the end of a hold is
 * told with the hold.
 */
const stillToCome = (told: Explanation, nowMs: number) =>
  told.next.filter(
    ({ at }) => at === null || !isInDoubt(told) || (secondsSince(at, nowMs) < 0 && at !== told.held?.held_until),
  );

const whenOf = (at: string | null, nowMs: number) => {
  if (at === null) return 'any time';
  return secondsSince(at, nowMs) < 0 ? relative(at, nowMs) : `due ${relative(at, nowMs)}`;
};

const nextFacts = (told: Explanation, nowMs: number): Fact[] =>
  stillToCome(told, nowMs).map((step) => [whenOf(step.at, nowMs), readable(`if ${step.if} → ${step.then}`)]);

/**
 * Facts of one kind that follow one another are one line: the last of them, and how many there
 * were.
 */
function runsOf(evidence: Evidence[]): { last: Evidence; count: number }[] {
  const runs: { last: Evidence; count: number }[] = [];
  for (const fact of evidence) {
    const run = runs.at(-1);
    if (run?.last.kind === fact.kind) {
      run.last = fact;
      run.count += 1;
    } else runs.push({ last: fact, count: 1 });
  }
  return runs;
}

const evidenceFacts = (evidence: Evidence[], nowMs: number): Fact[] =>
  runsOf(evidence.toReversed()).map(({ last, count }) => [
    relative(last.at, nowMs),
    momentsInFull(statementOf(last)) + (count > 1 ? `  (the last of ${count})` : ''),
  ]);

export function section(title: string, lines: string[], { paint }: ClosingContext): string[] {
  return lines.length === 0 ? [] : ['', indent + paint('strong', title), ...lines.map((line) => indent + line)];
}

/** What only a change of the pool mends cannot be repaired; it can be changed, or be known of. */
const decidingHints = ({ kind, finding_id }: Finding, { commandLine }: ClosingContext): [string, string] =>
  kind === 'drift'
    ? ['Decide on what was found', commandLine('drift', 'repair', finding_id, '--reason', '"…"', '--dry-run')]
    : ['Say that you know of it', commandLine('drift', 'accept', finding_id, '--reason', '"…"')];

const changeHint = ({ findings }: Explanation, { commandLine }: ClosingContext): [string, string][] =>
  findings.some(({ kind }) => kind === 'repeat-failure')
    ? [['Change its pool first, then retry', commandLine('apply', '-f', 'pools.yaml')]]
    : [];

export const whatToDo = (told: Explanation, context: ClosingContext): string[] => [
  ...hintLines(changeHint(told, context), context.paint),
  ...openActionLines(told.node_id, told.actions, context),
  ...hintLines(
    [
      ...firstHints(told, context),
      ...(told.held ? [['See all that is held', context.commandLine('brake')] satisfies [string, string]] : []),
      ...told.findings.map((finding) => decidingHints(finding, context)),
      ['See all that happened', context.commandLine('timeline', told.node_id)],
      ['Read its logs', context.commandLine('logs', told.node_id)],
    ],
    context.paint,
  ),
];

/** The same words and the same bar as for whoever waits for it. */
const workLines = (progress: Progress | null, fit: ClosingContext): string[] =>
  progress ? progressLines({ progress, bar: raiseBar(null, progress), seen_seconds_ago: 0 }, fit) : [];

const foundWhere: Record<Finding['kind'], string> = {
  drift: 'Found',
  'repeat-failure': 'Found',
  'boot-shift': 'Found in its pool',
  identity: 'Found',
  'join-token': 'Found in its pool',
  token: 'Found',
};

export function explanationLines(told: Explanation, node: Node, context: ClosingContext): string[] {
  const { nowMs } = context;
  const fit = { ...context, width: context.width - indent.length };
  const since = `for ${ageSince(told.status_since, nowMs)}`;
  const careful = [
    ...(told.held ? heldSentences(told.held, told.status, nowMs) : []),
    ...(told.would_have ? [wouldHaveSentence(told.would_have, nowMs)] : []),
    ...told.findings.map((finding) => sentence(`${foundWhere[finding.kind]}: ${bothSides(finding)}`)),
  ];
  return [
    titleLine(told.node_id, node.name, told.status, nodeTone(node), since, fit),
    ...(careful.length > 0 ? [...paragraph(`! ${careful.join(' ')}`, context, 'warn'), ''] : []),
    ...paragraph(story(told, node, nowMs), context),
    ...section('What is being done', workLines(told.progress, fit), context),
    ...section('What happens next', renderFacts(nextFacts(told, nowMs), fit), context),
    ...section('What this rests on', renderFacts(evidenceFacts(told.because.evidence, nowMs), fit), context),
    ...section(
      'Slow in its boot',
      paragraph(told.slow_stages.map(({ says }) => says).join('; '), fit).filter(isSaid),
      context,
    ),
    ...section('What you can do', whatToDo(told, context), context),
  ];
}

const isSaid = (line: string) => line.trim() !== '';
