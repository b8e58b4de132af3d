/** What an operator may do about a node, and when. Data: the API, the CLI and the console read the same table. Pure. */
import type { NodeStatus } from './states.ts';

/** What the preconditions look at. */
export interface ActionSubject {
  status: NodeStatus;
  deadline_at: Date | string | null;
  held: object | null;
}

interface NodeAction {
  /** What it does, in words for the button's caption. */
  does: string;
  from: readonly NodeStatus[];
  /** Besides the status; answers why not, for a person. */
  unless?(subject: ActionSubject): string | null;
}

export const nodeActions = {
  'extend-deadline': {
    does: 'gives it more time',
    from: ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
    unless: ({ deadline_at }) => (deadline_at === null ? 'It has no deadline.' : null),
  },
  'apply-held-verdict': {
    does: 'lets the verdict that is held back take effect now',
    from: ['provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning'],
    unless: ({ held }) => (held === null ? 'No verdict is held back.' : null),
  },
} as const satisfies Record<string, NodeAction>;

export type NodeActionName = keyof typeof nodeActions;
export const nodeActionNames = Object.keys(nodeActions) as NodeActionName[];

export interface OfferedAction {
  action: NodeActionName;
  does: string;
  open: boolean;
  why_not: string | null;
}

/** Every action with whether it is open now, and if not, why. */
export function offeredActions(subject: ActionSubject): OfferedAction[] {
  return nodeActionNames.map((action) => {
    const { does, from, unless }: NodeAction = nodeActions[action];
    const why_not = from.includes(subject.status)
      ? (unless?.(subject) ?? null)
      : `It is ${subject.status}; this needs ${from.join(', ')}.`;
    return { action, does, open: why_not === null, why_not };
  });
}
