/**
 * The actions on a node, and when each is available. The API, the CLI and the console read this
 * table.
 */
import { type AllocationStatus, isFenced, liveNodeStatuses, type NodeStatus, type Occupancy } from '../model/states.ts';
import { type ActionCaller, type ActionRow, type Offer, offersOf, whyNot } from './action-table.ts';

/** The facts that the preconditions check. */
export interface ActionSubject {
  status: NodeStatus;
  node_instance_id: string | null;
  occupancy: Occupancy;
  /**
   * The status of the allocation that holds the node. A node in cleanup without one has residue of
   * a forced release.
   */
  allocation_status: AllocationStatus | null;
  deadline_at: Date | string | null;
  held: object | null;
  endpoint: string | null;
  /** Why the instance is fenced; null if it is not. */
  instance_fenced: string | null;
  /** The unfinished operation that tears the machine down. */
  taken_down_by: string | null;
  /** Somebody else provides the machines of its pool; no driver launches them. */
  external: boolean;
  /** Supervised through its provider, without an agent. */
  agentless?: boolean;
  /** The agent's key replaced another one without being signed by it. */
  key_unproven?: boolean;
  /** False: a release destroys the machine, and with it everything you could still inspect. */
  reuse?: boolean;
}

export type NodeAction = ActionRow<NodeStatus, ActionSubject>;

const inUse: Partial<Record<Occupancy, string>> = {
  reserved: 'An allocation waits for it; release that first.',
  occupied: 'An allocation is served by it; release that first.',
  cleanup: 'Its last allocation is still being released; that ends it as well.',
};
/**
 * A node that was quarantined while it served can return to its allocation. All other actions need
 * it free.
 */
const quarantinedInUse: Partial<Record<Occupancy, string>> = {
  ...inUse,
  reserved: 'An allocation that failed still holds it; release that first.',
  occupied: 'An allocation is still on it: reactivate lets the machine serve it again; for this, release it first.',
};
/**
 * A person quarantines a machine to inspect it, so advice to release it must say that this destroys
 * it.
 */
export const releaseDestroysIt = 'In its pool a release takes the machine down, and nothing is left of it to look at.';
const whyInUse = ({ status, occupancy, reuse }: ActionSubject) => {
  if (status !== 'quarantined') return inUse[occupancy] ?? null;
  const why = quarantinedInUse[occupancy];
  return why ? `${why}${reuse === false ? ` ${releaseDestroysIt}` : ''}` : null;
};
const hasResidue = ({ occupancy, allocation_status }: ActionSubject) =>
  occupancy === 'cleanup' && allocation_status === null;
const residueWords = ({ external }: ActionSubject) =>
  `What its last allocation left on it is not proven gone: release that, or see to its residue, or ${external ? 'retire it and let the machine join anew' : 'reimage or retire the machine'}.`;
/** Residue belongs to no allocation, and a teardown is one way to remove it. */
const unlessInUse = (subject: ActionSubject) => (hasResidue(subject) ? null : whyInUse(subject));

/**
 * Re-enrolling an external machine keeps the tenant's data on it. A driver would launch another
 * machine instead.
 */
function whyNotEnrol(subject: ActionSubject): string | null {
  const { status, occupancy, external, agentless } = subject;
  if (agentless) return 'No agent runs on it, so there is nobody to enrol. Reimage makes it anew.';
  if (hasResidue(subject)) return residueWords(subject);
  if (occupancy === 'free' || occupancy === 'cleanup' || status === 'quarantined') return whyInUse(subject);
  if (external) return null;
  return occupancy === 'reserved'
    ? 'An allocation waits for it; retry brings that a new instance.'
    : 'Its driver would launch another machine, without what its allocation has on this one; release that first.';
}

const whyFenced = ({ instance_fenced }: ActionSubject) =>
  instance_fenced === null
    ? null
    : `Nothing that it says is believed any more (${instance_fenced}); re-enroll it, reimage it or retire it.`;

const allBut = (...statuses: NodeStatus[]) => liveNodeStatuses.filter((status) => !statuses.includes(status));

/** For requests for diagnostics after the machine is gone. */
export const frozenWords = 'what it knew was frozen before it went; read that in its timeline, kind evidence.frozen.';

export const nodeActions = {
  retry: {
    does: 'tries again with a new instance; what is left of the old one is taken down first',
    for: 'fleet',
    from: ['failed'],
    unless: ({ occupancy }) => (occupancy === 'reserved' ? null : 'No allocation waits for it.'),
  },
  'extend-deadline': {
    does: 'gives it more time',
    for: 'fleet',
    from: ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
    unless: ({ deadline_at }) => (deadline_at === null ? 'It has no deadline.' : null),
  },
  drain: {
    does: 'lets it take nothing new; once it is empty it is set aside, or retired if that was asked',
    for: 'fleet',
    from: ['ready', 'degraded', 'offline'],
  },
  undrain: {
    does: 'lets it take work again',
    for: 'fleet',
    from: ['draining'],
    // While the node drains, a re-enrolment may have fenced its instance; nobody may get a fenced
    // machine.
    unless: whyFenced,
    elsewhere: {
      quarantined: 'It is quarantined, as a drained machine is once it is empty; reactivate brings it back.',
    },
  },
  quarantine: {
    does: 'sets it aside, as it is, for a person to look at',
    for: 'fleet',
    from: allBut('quarantined'),
  },
  reactivate: {
    does: 'lets it serve again, also the allocation that is still on it, once it beats and says ready',
    for: 'fleet',
    from: ['quarantined'],
    unless: (subject) => {
      if (hasResidue(subject)) return residueWords(subject);
      if (subject.occupancy === 'reserved') return whyInUse(subject);
      if (subject.occupancy === 'cleanup')
        return 'What its last allocation left on it is not proven gone; release that first.';
      const fenced = whyFenced(subject);
      if (fenced) return fenced;
      return subject.taken_down_by === null
        ? null
        : `Operation ${subject.taken_down_by}, which takes it down, has not ended yet; wait for that.`;
    },
  },
  reimage: {
    does: 'takes it down with proof and brings it up anew, as a new instance; what the old one left on record stays',
    for: 'fleet',
    from: ['ready', 'degraded', 'offline', 'failed', 'draining', 'quarantined'],
    unless: (subject) =>
      subject.external
        ? `Its machine is brought by others, and nobody here can image it. ${hasResidue(subject) ? 'Retire it, image it yourself, and let it join anew.' : 'Set it aside, image it yourself, then re-enroll it.'}`
        : unlessInUse(subject),
  },
  're-enroll': {
    does: 'lets the same machine enrol again when its credential was lost, as a new instance; nothing that the old one says counts any more',
    for: 'fleet',
    from: ['offline', 'failed', 'quarantined'],
    unless: whyNotEnrol,
  },
  retire: {
    does: 'takes it down for good, with proof',
    for: 'fleet',
    from: allBut('cleaning'),
    unless: unlessInUse,
  },
  'retry-release': {
    does: 'tries the failed release of its allocation again, now',
    for: 'fleet',
    from: liveNodeStatuses,
    unless: ({ allocation_status }) => {
      if (allocation_status === 'release_failed') return null;
      return allocation_status === 'releasing'
        ? 'The release of its allocation is under way; it has not failed.'
        : 'No release of it has failed.';
    },
  },
  'force-release': {
    does: 'ends the release of its allocation, with a proof or with what may remain on the residue ledger',
    for: 'fleet',
    from: liveNodeStatuses,
    unless: ({ allocation_status }) =>
      allocation_status === 'releasing' || allocation_status === 'release_failed'
        ? null
        : 'No release of it runs or has failed; release its allocation first.',
  },
  'accept-key': {
    does: "accepts the agent's current key, given its fingerprint, so that proofs signed with it count",
    for: 'fleet',
    from: liveNodeStatuses,
    unless: ({ key_unproven }) => (key_unproven ? null : 'Its key is not in doubt.'),
  },
  'apply-held-verdict': {
    does: 'lets the verdict that is held back take effect now',
    for: 'fleet',
    from: ['provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning'],
    unless: ({ held }) => (held === null ? 'No verdict is held back.' : null),
  },
  probe: {
    does: 'asks it whether it lives, now, and keeps what was seen as evidence',
    for: 'fleet',
    from: liveNodeStatuses,
    unless: ({ node_instance_id, endpoint, status }) => {
      if (node_instance_id === null) return 'It has no instance that could be asked.';
      return endpoint === null && isFenced(status)
        ? 'It gave no address to ask at, and while it is fenced its agent is given no such task.'
        : null;
    },
  },
  'collect-diagnostics': {
    does: 'asks its agent and its provider for what they alone know, and keeps it as evidence',
    for: 'fleet',
    from: liveNodeStatuses,
    elsewhere: { retired: `It is retired; ${frozenWords}` },
    unless: ({ node_instance_id }) => (node_instance_id === null ? 'It has no instance that could be asked.' : null),
  },
} as const satisfies Record<string, NodeAction>;

export type NodeActionName = keyof typeof nodeActions;
export const nodeActionNames = Object.keys(nodeActions) as NodeActionName[];
export type OfferedAction = Offer<NodeActionName>;

export const offeredActions = (subject: ActionSubject, caller: ActionCaller): OfferedAction[] =>
  offersOf<NodeActionName, NodeStatus, ActionSubject>(nodeActions, subject, caller);

/** Null if the action is available. */
export const whyNotOnNode = (action: NodeActionName, subject: ActionSubject): string | null =>
  whyNot<NodeStatus, ActionSubject>(nodeActions[action], subject);
