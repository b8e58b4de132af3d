/** Renders how a wait ended: the outcome, how long it took, and the next commands. */
import type { Allocation } from '../../../contract/allocation.ts';
import type { Node } from '../../../contract/node.ts';
import type { Operation } from '../../../contract/operation.ts';
import { hasEnded } from '../../../lifecycle/deadlines/rescue-window.ts';
import type { ExitName } from '../../terminal/exit-codes.ts';
import type { Subject, Target } from '../../wait/subject.ts';
import { formatDuration, formatRelative, momentInFull } from '../text/duration.ts';
import { type Hint, hintLines, type RenderContext } from '../text/hints.ts';
import type { Paint } from '../text/palette.ts';
import { flow, printable, wrap } from '../text/text.ts';
import { nextTrySentence } from './release-failure.ts';

export interface OutcomeContext extends RenderContext {
  /** The number of residue entries, if a forced release ended without proof. */
  residue_count?: number;
  /** Lines with the available actions on an allocation whose release failed. */
  available_actions?: string[];
}

const indent = '  ';

const goodLine = (paint: Paint, text: string) => `${paint('good', '✔')} ${paint('strong', text)}`;
const doubtfulLine = (paint: Paint, text: string) => `${paint('warn', '!')} ${paint('strong', text)}`;
const badLine = (paint: Paint, text: string) => `${paint('bad', '✖')} ${paint('strong', text)}`;

const wrapIndented = (text: string | null | undefined, width: number) =>
  text ? wrap(printable(text), width - indent.length).map((line) => indent + line) : [];

const secondsBetween = (from: string | null | undefined, to: string | null | undefined): number | null =>
  from && to ? (Date.parse(to) - Date.parse(from)) / 1000 : null;

const afterText = (seconds: number | null) => (seconds === null ? '' : ` after ${formatDuration(seconds)}`);

function detailLines(parts: (string | null | undefined | false)[], { paint, width }: RenderContext): string[] {
  const details = parts.filter((part): part is string => typeof part === 'string' && part !== '');
  return flow(details, width - indent.length).map((line) => paint('quiet', indent + line));
}

/** Prefers the correlation id of the operation: the allocation has that of its first request. */
function ownerLines(allocation: Allocation, operation: Operation | null, context: RenderContext): string[] {
  return detailLines(
    [
      allocation.verdict && `rule ${allocation.verdict.rule}`,
      allocation.owner_layer && `owner: ${allocation.owner_layer}`,
      `correlation_id ${operation?.correlation_id ?? allocation.correlation_id}`,
    ],
    context,
  );
}

const unprovenLines = (
  text: string,
  why: string | null | undefined,
  residue_count: number,
  context: RenderContext,
): string[] => [
  doubtfulLine(context.paint, text),
  ...wrapIndented(why, context.width),
  ...hintLines(
    [
      [
        `${residue_count === 1 ? '1 entry' : `${residue_count} entries`} on the residue ledger`,
        context.commandLine('residue'),
      ],
    ],
    context.paint,
  ),
];

type AllocationOutcome = (allocation: Allocation, operation: Operation | null, context: OutcomeContext) => string[];

const allocationOutcomes: Partial<Record<Allocation['status'], AllocationOutcome>> = {
  active: (allocation, _, { paint, commandLine }) => {
    const id = allocation.allocation_id;
    const seconds = secondsBetween(allocation.created_at, allocation.active_at);
    return [
      goodLine(paint, `${id} is active${afterText(seconds)}`),
      ...hintLines(
        [
          ...(allocation.endpoint ? [['Endpoint', printable(allocation.endpoint)] satisfies Hint] : []),
          ...(allocation.node_id ? [['Look at it', commandLine('node', allocation.node_id)] satisfies Hint] : []),
          ['Give it back', commandLine('release', id)],
        ],
        paint,
      ),
    ];
  },
  released: (allocation, operation, context) => {
    const { paint, width } = context;
    const seconds = secondsBetween(operation?.created_at, allocation.released_at ?? operation?.finished_at);
    if (context.residue_count !== undefined) {
      const text = `${allocation.allocation_id} is released without proof${afterText(seconds)}`;
      return unprovenLines(text, allocation.reason, context.residue_count, context);
    }
    return [
      goodLine(paint, `${allocation.allocation_id} is released${afterText(seconds)}`),
      ...wrapIndented(allocation.reason ?? operation?.progress.message, width),
    ];
  },
  failed: (allocation, operation, context) => {
    const { paint, width, nowMs, commandLine } = context;
    const id = allocation.allocation_id;
    const why = allocation.reason ?? allocation.verdict?.reason ?? operation?.error?.message;
    const rescue =
      !hasEnded(allocation) && allocation.deadline_at && Date.parse(allocation.deadline_at) > nowMs
        ? `Its machine can still come up until ${momentInFull(allocation.deadline_at)} (${formatRelative(allocation.deadline_at, nowMs)}).`
        : null;
    return [
      badLine(paint, `${id} failed${afterText(secondsBetween(allocation.created_at, allocation.status_since))}`),
      ...wrapIndented(why, width),
      ...wrapIndented(rescue, width),
      ...ownerLines(allocation, operation, context),
      ...hintLines(
        [
          ...(allocation.node_id ? [['Why, and what next', commandLine('explain', id)] satisfies Hint] : []),
          ['See what happened', commandLine('timeline', id)],
          ...(allocation.node_id ? [['Read its logs', commandLine('logs', id)] satisfies Hint] : []),
          ['Release it', commandLine('release', id)],
        ],
        paint,
      ),
    ];
  },
  release_failed: (allocation, operation, context) => {
    const { paint, width, nowMs, commandLine } = context;
    const id = allocation.allocation_id;
    const why = allocation.reason ?? allocation.verdict?.reason ?? operation?.error?.message;
    return [
      badLine(
        paint,
        `${id} could not be released${afterText(secondsBetween(operation?.created_at, allocation.status_since))}`,
      ),
      ...wrapIndented(why, width),
      ...wrapIndented(
        `${nextTrySentence(allocation, nowMs) ?? 'Slipway retries the release.'} Slipway keeps retrying, and the machine stays fenced until the release succeeds.`,
        width,
      ),
      ...ownerLines(allocation, operation, context),
      ...hintLines(
        [
          ['Why, and what next', commandLine('explain', id)],
          ['See what happened', commandLine('timeline', id)],
          ['Read its logs', commandLine('logs', id)],
          ['Try again now', commandLine('release', id, '--wait')],
        ],
        paint,
      ),
      ...(context.available_actions?.length
        ? ['', paint('strong', 'What else you can do'), ...context.available_actions]
        : []),
    ];
  },
};

function nodeOutcome(node: Node, exit: ExitName, context: RenderContext): string[] {
  const { paint, width, commandLine } = context;
  const text = `${node.node_id} is ${node.status}`;
  if (exit === 'ok') return [goodLine(paint, text), ...wrapIndented(node.verdict?.reason, width)];
  return [
    badLine(paint, text),
    ...wrapIndented(node.verdict?.reason ?? node.fence_reason, width),
    ...detailLines([node.verdict && `rule ${node.verdict.rule}`], context),
    ...hintLines([['See what happened', commandLine('timeline', node.node_id)]], paint),
  ];
}

function operationOutcome(operation: Operation, exit: ExitName, context: OutcomeContext): string[] {
  const { paint, width, commandLine } = context;
  const seconds = secondsBetween(operation.created_at, operation.finished_at);
  const text = `${operation.workflow_id} (${operation.kind}) ${operation.status}${afterText(seconds)}`;
  const { message } = operation.progress;
  if (context.residue_count !== undefined) return unprovenLines(text, message, context.residue_count, context);
  if (exit === 'ok') return [goodLine(paint, text), ...wrapIndented(message, width)];
  const { error } = operation;
  return [
    badLine(paint, text),
    ...wrapIndented(error?.message, width),
    ...detailLines(
      [
        error?.code,
        error?.step && `step ${error.step}`,
        error?.owner_layer && `owner: ${error.owner_layer}`,
        `correlation_id ${operation.correlation_id}`,
      ],
      context,
    ),
    ...hintLines(
      [
        ...(operation.node_id
          ? [['Why, and what next', commandLine('explain', operation.workflow_id)] satisfies Hint]
          : []),
        ['See what happened', commandLine('timeline', operation.workflow_id)],
      ],
      paint,
    ),
  ];
}

export function outcomeLines(subject: Subject, exit: ExitName, context: OutcomeContext): string[] {
  const { allocation, node, operation } = subject;
  if (allocation) return allocationOutcomes[allocation.status]?.(allocation, operation, context) ?? [];
  if (node) return nodeOutcome(node, exit, context);
  return operation ? operationOutcome(operation, exit, context) : [];
}

const statusOf = ({ allocation, node, operation }: Subject) =>
  allocation?.status ?? node?.status ?? operation?.status ?? 'not seen yet';

/** Renders a wait that a timeout or Ctrl-C ended before the subject settled. */
export function unfinishedLines(subject: Subject, target: Target, reason: string, context: RenderContext): string[] {
  const { paint, commandLine } = context;
  return [
    `${paint('warn', '!')} ${paint('strong', `${reason}: ${target.id} is ${statusOf(subject)} and continues`)}`,
    ...hintLines(
      [
        ['Follow it again', commandLine('watch', target.id)],
        ...(target.kind === 'allocation' ? [['Release it', commandLine('release', target.id)] satisfies Hint] : []),
      ],
      paint,
    ),
  ];
}
