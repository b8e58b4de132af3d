/** What an operator may do about a machine, each with the command that does it. */
import type { NodeActed } from '../../contract/explanation.ts';
import type { NodeActionName, OfferedAction } from '../../lifecycle/actions.ts';
import type { ClosingContext } from './closing.ts';
import { momentAndDistance, momentsInFull } from './duration.ts';
import { renderFacts } from './table.ts';
import { printable } from './text.ts';

type CommandLine = ClosingContext['commandLine'];

/** What an action cannot do without, besides its reason. */
const needed: Partial<Record<NodeActionName, string[]>> = { 'extend-deadline': ['--seconds', '10m'] };

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const actLine = (node_id: string, action: NodeActionName, commandLine: CommandLine) =>
  commandLine('act', node_id, action, ...(needed[action] ?? []), '--reason', '"…"');

/** What it does, and below it the command: together they would be wider than most windows. */
export const openActionLines = (node_id: string, actions: OfferedAction[], context: ClosingContext): string[] =>
  actions
    .filter(({ open }) => open)
    .flatMap(({ action, does }) => [
      context.paint('quiet', `  ${capital(printable(does))}:`),
      `    ${actLine(node_id, action, context.commandLine)}`,
    ]);

export function actionLines(node_id: string, actions: OfferedAction[], context: ClosingContext): string[] {
  const { paint } = context;
  const open = openActionLines(node_id, actions, context);
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

export function actedLines(action: string, { node, dry_run, predicts }: NodeActed, context: ClosingContext): string[] {
  const { paint, nowMs } = context;
  const says = momentsInFull(printable(predicts.says));
  const head = dry_run
    ? `${paint('warn', '○')} ${paint('strong', 'Nothing was done.')} ${action} on ${node.node_id} would mean: ${says}`
    : `${paint('good', '✔')} ${paint('strong', `${action} on ${node.node_id}`)}: ${says}`;
  const becomes = dry_run && predicts.status !== node.status ? ` → ${predicts.status}` : '';
  const deadline = dry_run ? predicts.deadline_at : node.deadline_at;
  return [
    head,
    ...renderFacts(
      [
        ['status', node.status + becomes],
        ['deadline', momentAndDistance(deadline, nowMs)],
      ],
      context,
    ),
  ];
}
