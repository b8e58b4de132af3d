/** Renders an explanation: why a machine has its status, what happens next, what you can do. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { BudgetSource, Node } from '../../../contract/node.ts';
import type { Progress } from '../../../contract/progress.ts';
import type { Explanation } from '../../../contract/supervision/explanation.ts';
import type { Finding } from '../../../contract/supervision/finding.ts';
import { progressLines, raiseBar } from '../allocations/progress.ts';
import { failedReleaseSentences, isReleaseFailed, type ReleaseFailure } from '../allocations/release-failure.ts';
import { statementOf } from '../evidence/evidence.ts';
import { bothSides } from '../supervision/finding.ts';
import {
  formatAge,
  formatAgeSince,
  formatElapsed,
  formatRelative,
  momentInFull,
  momentsInFull,
  secondsSince,
} from '../text/duration.ts';
import { hintLines, type RenderContext } from '../text/hints.ts';
import type { Tone } from '../text/palette.ts';
import { type Fact, renderFacts } from '../text/table.ts';
import { endSentence, printable, wrap } from '../text/text.ts';
import { availableActionLines } from './actions.ts';
import { heldSentences, wouldHaveSentence } from './held.ts';
import { nodeTone, titleLine } from './node.ts';

const indent = '  ';

export const paragraph = (text: string, { width, paint }: RenderContext, tone?: Tone): string[] =>
  wrap(printable(text), width - indent.length).map((line) => indent + paint(tone, line));

export const toReadable = (text: string) => momentsInFull(printable(text));

const budgetSources: Record<BudgetSource, string> = {
  allocation: 'set by its allocation',
  learned: 'learned from the boots of its pool',
  pool: 'set by its pool',
  class: 'set by its runtime class',
  default: 'the server’s default',
};

function deadlineSentence({ deadline_at, budget_seconds, budget_source }: Explanation, nowMs: number): string | null {
  if (!deadline_at) return null;
  const budgetSentence =
    budget_seconds === null || budget_source === null
      ? ''
      : ` Its budget is ${formatElapsed(budget_seconds)}, ${budgetSources[budget_source]}.`;
  const secondsPast = secondsSince(deadline_at, nowMs);
  const deadline = momentInFull(deadline_at);
  return secondsPast < 0
    ? `It has ${formatAge(-secondsPast)} left, until ${deadline}.${budgetSentence}`
    : `It is ${formatAge(secondsPast)} overdue, since ${deadline}.${budgetSentence}`;
}

export const waitingSentence = (waiting_for: string): string => endSentence(`It waits for ${toReadable(waiting_for)}`);

/** The meaning of the status may not be true if a verdict is held or only observed. */
const isInDoubt = ({ held, would_have }: Explanation) => held !== null || would_have !== null;

/** True if the machine waits for the next try of its release. */
const isStuckInRelease = ({ status, holder }: Explanation) => status === 'cleaning' && isReleaseFailed(holder);

/** A quarantined machine first needs its allocation released and its residue settled. */
const firstHints = ({ holder, residue, status }: Explanation, { commandLine }: RenderContext): [string, string][] => {
  const isInUse = status === 'quarantined' && holder && !['failed', 'released'].includes(holder.status);
  return [
    ...(isInUse
      ? [['Release its allocation', commandLine('release', holder.allocation_id)] satisfies [string, string]]
      : []),
    ...residue.flatMap((id): [string, string][] => [
      ['Check its residue', commandLine('residue', 'verify', id, '--reason', '"…"')],
      ['Delete its residue', commandLine('residue', 'delete', id, '--reason', '"…"')],
      ['Adopt its residue', commandLine('residue', 'adopt', id, '--reason', '"…"')],
    ]),
  ];
};

/** Returns null for evidence of older servers, which recorded only the reason. */
function releaseFailureIn({ because }: Explanation): ReleaseFailure | null {
  const fact = because.evidence.find(({ kind }) => kind === 'allocation.release_failed');
  const { stage, owner_layer, message } = (fact?.data.evidence ?? {}) as Record<string, unknown>;
  if (typeof stage !== 'string' || typeof owner_layer !== 'string' || typeof message !== 'string') return null;
  return { step: stage, owner_layer, message };
}

function summary(explanation: Explanation, node: Node, nowMs: number): string {
  const { because, status } = explanation;
  const sources = [because.rule, because.owner && !isStuckInRelease(explanation) && `owner: ${because.owner}`]
    .filter(Boolean)
    .join(', ');
  const sourceText = sources && ` [${sources}]`;
  const became = `It became ${status} ${formatRelative(because.at, nowMs)}`;
  const failure =
    explanation.holder &&
    isReleaseFailed(explanation.holder) &&
    failedReleaseSentences({ ...explanation.holder, failure: releaseFailureIn(explanation) }, nowMs);
  return [
    // The failure comes first; it makes the meaning of `cleaning` redundant.
    failure,
    !isInDoubt(explanation) && !isStuckInRelease(explanation) && explanation.means,
    endSentence(
      because.verdict && !isStuckInRelease(explanation)
        ? `${became}: ${toReadable(because.verdict)}${sourceText}`
        : became + sourceText,
    ),
    // The paragraph about a hold already says what the machine waits for.
    explanation.waiting_for &&
      !explanation.held &&
      !isStuckInRelease(explanation) &&
      waitingSentence(explanation.waiting_for),
    deadlineSentence(explanation, nowMs),
    node.last_seen_at && `Its last heartbeat was ${formatRelative(node.last_seen_at, nowMs)}.`,
  ]
    .filter(Boolean)
    .join(' ');
}

/** If the status is in doubt, leaves out steps that are due and the end of the hold. */
const upcomingSteps = (explanation: Explanation, nowMs: number) =>
  explanation.next.filter(
    ({ at }) =>
      at === null || !isInDoubt(explanation) || (secondsSince(at, nowMs) < 0 && at !== explanation.held?.held_until),
  );

const whenText = (at: string | null, nowMs: number) => {
  if (at === null) return 'any time';
  return secondsSince(at, nowMs) < 0 ? formatRelative(at, nowMs) : `due ${formatRelative(at, nowMs)}`;
};

const nextFacts = (explanation: Explanation, nowMs: number): Fact[] =>
  upcomingSteps(explanation, nowMs).map((step) => [
    whenText(step.at, nowMs),
    toReadable(`if ${step.if} → ${step.then}`),
  ]);

/** Replaces consecutive facts of one kind by the last one and their count. */
function groupByKind(evidence: Evidence[]): { last: Evidence; count: number }[] {
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
  groupByKind(evidence.toReversed()).map(({ last, count }) => [
    formatRelative(last.at, nowMs),
    momentsInFull(statementOf(last)) + (count > 1 ? `  (the last of ${count})` : ''),
  ]);

export function section(title: string, lines: string[], { paint }: RenderContext): string[] {
  return lines.length === 0 ? [] : ['', indent + paint('strong', title), ...lines.map((line) => indent + line)];
}

/** Only drift can be repaired. For other findings, you change the pool or accept the finding. */
const findingHint = ({ kind, finding_id }: Finding, { commandLine }: RenderContext): [string, string] =>
  kind === 'drift'
    ? ['Preview the repair', commandLine('drift', 'repair', finding_id, '--reason', '"…"', '--dry-run')]
    : ['Accept the finding', commandLine('drift', 'accept', finding_id, '--reason', '"…"')];

const changeHint = ({ findings }: Explanation, { commandLine }: RenderContext): [string, string][] =>
  findings.some(({ kind }) => kind === 'repeat-failure')
    ? [['Change its pool first, then retry', commandLine('apply', '-f', 'pools.yaml')]]
    : [];

export const suggestionLines = (explanation: Explanation, context: RenderContext): string[] => [
  ...hintLines(changeHint(explanation, context), context.paint),
  ...availableActionLines(explanation.node_id, explanation.actions, context),
  ...hintLines(
    [
      ...firstHints(explanation, context),
      ...(explanation.held ? [['See all held verdicts', context.commandLine('brake')] satisfies [string, string]] : []),
      ...explanation.findings.map((finding) => findingHint(finding, context)),
      ['See its history', context.commandLine('timeline', explanation.node_id)],
      ['Read its logs', context.commandLine('logs', explanation.node_id)],
    ],
    context.paint,
  ),
];

/** Renders the same text and bar as --wait. */
const progressBlock = (progress: Progress | null, fit: RenderContext): string[] =>
  progress ? progressLines({ progress, bar: raiseBar(null, progress), seen_seconds_ago: 0 }, fit) : [];

const findingPrefixes: Record<Finding['kind'], string> = {
  drift: 'Found',
  'repeat-failure': 'Found',
  'boot-shift': 'Found in its pool',
  identity: 'Found',
  'join-token': 'Found in its pool',
  token: 'Found',
};

export function explanationLines(explanation: Explanation, node: Node, context: RenderContext): string[] {
  const { nowMs } = context;
  const fit = { ...context, width: context.width - indent.length };
  const since = `for ${formatAgeSince(explanation.status_since, nowMs)}`;
  const warnings = [
    ...(explanation.held ? heldSentences(explanation.held, explanation.status, nowMs) : []),
    ...(explanation.would_have ? [wouldHaveSentence(explanation.would_have, nowMs)] : []),
    ...explanation.findings.map((finding) => endSentence(`${findingPrefixes[finding.kind]}: ${bothSides(finding)}`)),
  ];
  return [
    titleLine(explanation.node_id, node.name, explanation.status, nodeTone(node), since, fit),
    ...(warnings.length > 0 ? [...paragraph(`! ${warnings.join(' ')}`, context, 'warn'), ''] : []),
    ...paragraph(summary(explanation, node, nowMs), context),
    ...section('In progress', progressBlock(explanation.progress, fit), context),
    ...section('What happens next', renderFacts(nextFacts(explanation, nowMs), fit), context),
    ...section('Evidence', renderFacts(evidenceFacts(explanation.because.evidence, nowMs), fit), context),
    ...section(
      'Slow boot stages',
      paragraph(explanation.slow_stages.map(({ says }) => says).join('; '), fit).filter(isNotBlank),
      context,
    ),
    ...section('What you can do', suggestionLines(explanation, context), context),
  ];
}

const isNotBlank = (line: string) => line.trim() !== '';
