/** What may be done about a machine or an allocation, each with the command that does it. */
import type { AllocationActed } from '../../../contract/allocation-action.ts';
import type { NodeActed } from '../../../contract/supervision/explanation.ts';
import type { Offer } from '../../../lifecycle/actions/action-table.ts';
import type { NodeActionName } from '../../../lifecycle/actions/actions.ts';
import type { AllocationActionName } from '../../../lifecycle/actions/allocation-actions.ts';
import { type ClosingContext, hintLines } from '../allocations/outcome.ts';
import { momentAndDistance, momentsInFull } from '../text/duration.ts';
import { renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';

export type ActionName = NodeActionName | AllocationActionName;
type OfferedAction = Offer<ActionName>;

type CommandLine = ClosingContext['commandLine'];

/** What an action cannot do without, besides its reason. */
const needed: Partial<Record<ActionName, string[]>> = {
  'extend-deadline': ['--seconds', '10m'],
  'accept-key': ['--fingerprint', 'FINGERPRINT'],
};

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const actLine = (id: string, action: ActionName, commandLine: CommandLine) =>
  commandLine('act', id, action, ...(needed[action] ?? []), '--reason', '"…"');

/** What it does, and below it the command: together they would be wider than most windows. */
export const openActionLines = (id: string, actions: OfferedAction[], context: ClosingContext): string[] =>
  actions
    .filter(({ open }) => open)
    .flatMap(({ action, does }) => [
      context.paint('quiet', `  ${capital(printable(does))}:`),
      `    ${actLine(id, action, context.commandLine)}`,
    ]);

export function actionLines(id: string, actions: OfferedAction[], context: ClosingContext): string[] {
  const { paint } = context;
  const open = openActionLines(id, actions, context);
  const closed = actions.filter((action) => !action.open);
  return [
    ...(open.length > 0 ? [paint('strong', 'Open now'), ...open] : ['Nothing is open now.']),
    ...(closed.length > 0 ? ['', paint('strong', 'Not now')] : []),
    ...renderFacts(
      closed.map(({ action, does, why_not }) => [action, printable(`${does}. ${why_not ?? ''}`)]),
      context,
    ),
  ];
}

/** What was acted on, as far as both kinds say the same. */
const actedOn = (acted: NodeActed | AllocationActed) =>
  'node' in acted
    ? { id: acted.node.node_id, ...acted.node }
    : { id: acted.allocation.allocation_id, ...acted.allocation };

/** Given by the environment: a command line can be read by everybody on the machine. */
export const enrolLines = (token: string, server: string, { paint }: ClosingContext): string[] => [
  '',
  `${paint('strong', 'Start its agent on the machine, as it was started before, with this token.')} It is not shown again.`,
  `  SLIPWAY_ENROLLMENT_TOKEN=${printable(token)} slipway agent --server ${printable(server)}`,
];

/** Their outcome is what they found out, and not what becomes of the machine. */
const questions = ['probe', 'collect-diagnostics'];

export function actedLines(action: string, acted: NodeActed | AllocationActed, context: ClosingContext): string[] {
  const { paint, nowMs, commandLine } = context;
  const { dry_run, predicts, operation } = acted;
  const { id, status, deadline_at } = actedOn(acted);
  const says = momentsInFull(printable(predicts.says));
  const head = dry_run
    ? `${paint('warn', '○')} ${paint('strong', 'Nothing was done.')} ${action} on ${id} would mean: ${says}`
    : `${paint('good', '✔')} ${paint('strong', `${action} on ${id}`)}: ${says}`;
  // What was asked for has only begun: where it stood before is told as that, without the deadline that it leaves behind.
  const isToCome = predicts.status !== status;
  const begun = operation ? `${operation.kind} has begun` : 'it has begun';
  const stands = dry_run ? `${status} → ${predicts.status}` : `${begun}; still ${status}, then ${predicts.status}`;
  const deadline = dry_run || isToCome ? predicts.deadline_at : deadline_at;
  return [
    head,
    ...renderFacts(
      [
        ['status', isToCome ? stands : status],
        ['deadline', momentAndDistance(deadline, nowMs)],
      ],
      context,
    ),
    ...(operation
      ? hintLines(
          [
            ['Follow it', commandLine('watch', operation.workflow_id)],
            ...(questions.includes(action)
              ? [['Read what came of it', commandLine('diagnostics', id)] as [string, string]]
              : []),
          ],
          paint,
        )
      : []),
  ];
}
