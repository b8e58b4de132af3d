/** Renders the actions on a node or an allocation with their commands, and the result of one. */
import type { AllocationActed } from '../../../contract/allocation-action.ts';
import type { NodeActed } from '../../../contract/supervision/explanation.ts';
import type { Offer } from '../../../lifecycle/actions/action-table.ts';
import type { NodeActionName } from '../../../lifecycle/actions/actions.ts';
import type { AllocationActionName } from '../../../lifecycle/actions/allocation-actions.ts';
import { formatMoment, momentsInFull } from '../text/duration.ts';
import { type Hint, hintLines, type RenderContext } from '../text/hints.ts';
import { renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';

export type ActionName = NodeActionName | AllocationActionName;
type OfferedAction = Offer<ActionName>;

type CommandLine = RenderContext['commandLine'];

/** Required flags besides --reason. */
const requiredFlags: Partial<Record<ActionName, string[]>> = {
  'extend-deadline': ['--seconds', '10m'],
  'accept-key': ['--fingerprint', 'FINGERPRINT'],
};

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const actLine = (id: string, action: ActionName, commandLine: CommandLine) =>
  commandLine('act', id, action, ...(requiredFlags[action] ?? []), '--reason', '"…"');

/** The command goes below its description: one line for both would not fit most windows. */
export const availableActionLines = (id: string, actions: OfferedAction[], context: RenderContext): string[] =>
  actions
    .filter(({ open }) => open)
    .flatMap(({ action, does }) => [
      context.paint('quiet', `  ${capitalize(printable(does))}:`),
      `    ${actLine(id, action, context.commandLine)}`,
    ]);

export function actionLines(id: string, actions: OfferedAction[], context: RenderContext): string[] {
  const { paint } = context;
  const availableLines = availableActionLines(id, actions, context);
  const unavailable = actions.filter((action) => !action.open);
  return [
    ...(availableLines.length > 0
      ? [paint('strong', 'Available now'), ...availableLines]
      : ['No action is available now.']),
    ...(unavailable.length > 0 ? ['', paint('strong', 'Not available now')] : []),
    ...renderFacts(
      unavailable.map(({ action, does, why_not }) => [action, printable(`${does}. ${why_not ?? ''}`)]),
      context,
    ),
  ];
}

/** Returns the node or the allocation that the action ran on. */
const targetOf = (acted: NodeActed | AllocationActed) =>
  'node' in acted
    ? { id: acted.node.node_id, ...acted.node }
    : { id: acted.allocation.allocation_id, ...acted.allocation };

/**
 * Passes the token in the environment, because every user of the machine can read a command line.
 */
export const enrolLines = (token: string, server: string, { paint }: RenderContext): string[] => [
  '',
  `${paint('strong', 'Start the agent on the machine again, with this token.')} It is not shown again.`,
  `  SLIPWAY_ENROLLMENT_TOKEN=${printable(token)} slipway agent --server ${printable(server)}`,
];

/** `slipway diagnostics` shows the result of these actions. */
const diagnosticActions = ['probe', 'collect-diagnostics'];

export function actedLines(action: string, acted: NodeActed | AllocationActed, context: RenderContext): string[] {
  const { paint, nowMs, commandLine } = context;
  const { dry_run, predicts, operation } = acted;
  const { id, status, deadline_at } = targetOf(acted);
  const effect = momentsInFull(printable(predicts.says));
  const head = dry_run
    ? `${paint('warn', '○')} ${paint('strong', 'Dry run: nothing was done.')} ${action} on ${id} would mean: ${effect}`
    : `${paint('good', '✔')} ${paint('strong', `${action} on ${id}`)}: ${effect}`;
  // A pending action has not changed the status yet, so the deadline of the old status is left out.
  const isPending = predicts.status !== status;
  const beginning = operation ? `${operation.kind} has begun` : 'the action has begun';
  const change = dry_run ? `${status} → ${predicts.status}` : `${beginning}; still ${status}, then ${predicts.status}`;
  const deadline = dry_run || isPending ? predicts.deadline_at : deadline_at;
  return [
    head,
    ...renderFacts(
      [
        ['status', isPending ? change : status],
        ['deadline', formatMoment(deadline, nowMs)],
      ],
      context,
    ),
    ...(operation
      ? hintLines(
          [
            ['Follow it', commandLine('watch', operation.workflow_id)],
            ...(diagnosticActions.includes(action)
              ? [['See the result', commandLine('diagnostics', id)] satisfies Hint]
              : []),
          ],
          paint,
        )
      : []),
  ];
}
