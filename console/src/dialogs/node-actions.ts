/** What may be done about a machine itself. The server says what is open; here stands what a person is told. */
import type { Explanation } from '../../../src/contract/explanation.ts';
import type { Held, Node } from '../../../src/contract/node.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions.ts';
import { actOnNode } from '../api/nodes.ts';
import type { Action } from './ActionDialog.tsx';

export const isOpen = ({ actions }: Pick<Explanation, 'actions'>, name: NodeActionName): boolean =>
  actions.some(({ action, open }) => action === name && open);

const usualMinutes = 10;

export const extendDeadlineAction = ({ node_id, name }: Node): Action => ({
  title: `Extend the deadline of ${name}?`,
  says: 'It gets more time before the next rule decides. Nothing else changes.',
  button: 'Extend deadline',
  needsReason: true,
  minutes: usualMinutes,
  done: `${name} has more time`,
  run: (reason, key, minutes) =>
    actOnNode(node_id, 'extend-deadline', { reason: reason ?? '', seconds: minutes * 60 }, key),
});

export const applyHeldAction = ({ node_id, name, status }: Node, held: Held): Action => ({
  title: `Apply the held verdict to ${name}?`,
  says: `${held.rule} takes effect now, on this machine only: ${status} → ${held.to}. The others stay held.`,
  button: 'Apply the held verdict',
  destructive: true,
  needsReason: true,
  done: `${name} is ${held.to}`,
  run: (reason, key) => actOnNode(node_id, 'apply-held-verdict', { reason: reason ?? '' }, key),
});
