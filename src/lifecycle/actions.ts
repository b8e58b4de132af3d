/** What an operator may do about a node, and when. Data: the API, the CLI and the console read the same table. Pure. */
import { liveNodeStatuses, type NodeStatus, type Occupancy } from './states.ts';

/** What the preconditions look at. */
export interface ActionSubject {
  status: NodeStatus;
  occupancy: Occupancy;
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

const inUse: Partial<Record<Occupancy, string>> = {
  reserved: 'An allocation waits for it; release that first.',
  occupied: 'An allocation is served by it; release that first.',
  cleanup: 'Its last allocation is still being released; that ends it as well.',
};
const unlessInUse = ({ occupancy }: ActionSubject) => inUse[occupancy] ?? null;

const but = (...statuses: NodeStatus[]) => liveNodeStatuses.filter((status) => !statuses.includes(status));

export const nodeActions = {
  retry: {
    does: 'tries again with a new instance; what is left of the old one is taken down first',
    from: ['failed'],
    unless: ({ occupancy }) => (occupancy === 'reserved' ? null : 'No allocation waits for it.'),
  },
  'extend-deadline': {
    does: 'gives it more time',
    from: ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
    unless: ({ deadline_at }) => (deadline_at === null ? 'It has no deadline.' : null),
  },
  drain: {
    does: 'lets it take nothing new; once it is empty it is set aside, or retired with --then retire',
    from: ['ready', 'degraded', 'offline'],
  },
  undrain: { does: 'lets it take work again', from: ['draining'] },
  quarantine: {
    does: 'sets it aside, as it is, for a person to look at',
    from: but('quarantined'),
  },
  reactivate: {
    does: 'lets it serve again, once it beats and says ready',
    from: ['quarantined'],
    unless: ({ occupancy }) =>
      occupancy === 'free' ? null : 'What its last allocation left on it is not proven gone; release that first.',
  },
  retire: {
    does: 'takes it down for good, with proof',
    from: but('cleaning'),
    unless: unlessInUse,
  },
  'retry-release': {
    does: 'tries the failed release of its allocation again, now',
    from: liveNodeStatuses,
    unless: ({ occupancy }) => (occupancy === 'cleanup' ? null : 'No release of it has failed.'),
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
