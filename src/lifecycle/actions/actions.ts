/**
 * The actions on a node, and when each is available. The API, the CLI and the console read this
 * table.
 */
import { type AllocationStatus, isFenced, liveNodeStatuses, type NodeStatus, type Occupancy } from '../model/states.ts';
import { type ActionCaller, type ActionRow, type Offer, offersOf, whyNot } from './action-table.ts';

/** The facts about a node that the preconditions check. */
export interface ActionSubject {
  status: NodeStatus;
  node_instance_id: string | null;
  occupancy: Occupancy;
  /**
   * The status of the allocation that holds the node. If it is null although the occupancy is
   * `cleanup`, the node has residue of a forced release.
   */
  allocation_status: AllocationStatus | null;
  deadline_at: Date | string | null;
  held: object | null;
  endpoint: string | null;
  /** Why the current instance is fenced; null if it is not fenced. */
  instance_fenced: string | null;
  /** The unfinished operation that tears the machine down. */
  taken_down_by: string | null;
  /** Whether the pool is external: no driver launches its machines. */
  external: boolean;
  /** Whether the machine is supervised through its provider, without an agent. */
  agentless?: boolean;
  /** Whether the agent's key replaced another one that did not sign it. */
  key_unproven?: boolean;
  /** False if a release destroys the machine, so that nothing is left to inspect. */
  reuse?: boolean;
}

export type NodeAction = ActionRow<NodeStatus, ActionSubject>;

const inUseReasons: Partial<Record<Occupancy, string>> = {
  reserved: 'An allocation waits for it; release the allocation first.',
  occupied: 'An allocation uses it; release the allocation first.',
  cleanup: 'Its last allocation is still being released; wait until the release ends.',
};
/**
 * A node that was quarantined while an allocation used it can return to that allocation. To
 * reimage, re-enroll or retire it, release the allocation first.
 */
const quarantinedInUseReasons: Partial<Record<Occupancy, string>> = {
  ...inUseReasons,
  reserved: 'A failed allocation still holds it; release the allocation first.',
  occupied: 'An allocation still uses it. Reactivate the machine to serve it again, or release the allocation first.',
};
/**
 * People quarantine a machine to inspect it. Advice to release its allocation must therefore warn
 * that the release destroys the machine.
 */
export const releaseDestroysWords = 'In this pool a release destroys the machine, with everything you could inspect.';
const reasonInUse = ({ status, occupancy, reuse }: ActionSubject) => {
  if (status !== 'quarantined') return inUseReasons[occupancy] ?? null;
  const why = quarantinedInUseReasons[occupancy];
  return why ? `${why}${reuse === false ? ` ${releaseDestroysWords}` : ''}` : null;
};
const hasResidue = ({ occupancy, allocation_status }: ActionSubject) =>
  occupancy === 'cleanup' && allocation_status === null;
const residueWords = ({ external }: ActionSubject) =>
  `Its last allocation left residue that is not proven gone: release that allocation, settle the residue, or ${external ? 'retire it and let the machine join again' : 'reimage or retire the machine'}.`;
/** Residue does not prevent a teardown: it belongs to no allocation, and a teardown removes it. */
const reasonAgainstTeardown = (subject: ActionSubject) => (hasResidue(subject) ? null : reasonInUse(subject));

/**
 * A re-enrolled external machine keeps the tenant's data. For other machines the driver would
 * launch a new machine without that data.
 */
function reasonAgainstEnrolment(subject: ActionSubject): string | null {
  const { status, occupancy, external, agentless } = subject;
  if (agentless) return 'No agent runs on it, so it cannot enrol. Reimage it instead.';
  if (hasResidue(subject)) return residueWords(subject);
  if (occupancy === 'free' || occupancy === 'cleanup' || status === 'quarantined') return reasonInUse(subject);
  if (external) return null;
  return occupancy === 'reserved'
    ? 'An allocation waits for it; retry the allocation to get a new instance.'
    : 'Its driver would launch another machine, without the data of its allocation; release the allocation first.';
}

function fenceReason({ node_instance_id, instance_fenced }: ActionSubject): string | null {
  if (node_instance_id === null) return 'It has no instance; re-enroll it, reimage it or retire it.';
  return instance_fenced === null
    ? null
    : `Its instance is fenced (${instance_fenced}); re-enroll it, reimage it or retire it.`;
}

/** Why no agent can answer a task now; null if one may. */
function agentSilence(status: NodeStatus, agentless = false): string | null {
  if (agentless) return 'no agent runs on it';
  if (isFenced(status)) return 'its agent gets no probe task while it is fenced';
  if (status === 'offline') return 'its agent sends no heartbeats';
  return status === 'provisioning' ? 'its agent has not registered' : null;
}

const statusesExcept = (...statuses: NodeStatus[]) => liveNodeStatuses.filter((status) => !statuses.includes(status));

/** Why no diagnostics can be collected from a machine that is gone. */
export const savedDiagnosticsWords =
  'its diagnostics were saved before it was removed: see evidence.frozen in its timeline.';

export const nodeActions = {
  retry: {
    does: 'retries with a new instance, once the old one is torn down',
    for: 'fleet',
    from: ['failed'],
    whyNot: ({ occupancy }) => (occupancy === 'reserved' ? null : 'No allocation waits for it.'),
  },
  'extend-deadline': {
    does: 'gives it more time',
    for: 'fleet',
    from: ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
    whyNot: ({ deadline_at }) => (deadline_at === null ? 'It has no deadline.' : null),
  },
  drain: {
    does: 'gives it no new work; once empty it is quarantined, or retired on request',
    for: 'fleet',
    from: ['ready', 'degraded', 'offline'],
  },
  undrain: {
    does: 'lets it take new work again',
    for: 'fleet',
    from: ['draining'],
    // A re-enrolment may have fenced the instance while the node drained. No allocation may get a
    // fenced machine.
    whyNot: fenceReason,
    wrongStatusReasons: {
      quarantined: 'It is empty and quarantined by now; reactivate it instead.',
    },
  },
  quarantine: {
    does: 'takes it out of service unchanged, for you to inspect',
    for: 'fleet',
    from: statusesExcept('quarantined'),
  },
  reactivate: {
    does: 'returns it to service, with its allocation if it has one, once it reports ready',
    for: 'fleet',
    from: ['quarantined'],
    whyNot: (subject) => {
      if (hasResidue(subject)) return residueWords(subject);
      if (subject.occupancy === 'reserved' || subject.allocation_status === 'releasing') return reasonInUse(subject);
      // The release has failed, and the machine may still hold the tenant's data.
      if (subject.occupancy === 'cleanup')
        return 'Its last allocation left residue that is not proven gone; release the allocation first.';
      const fenced = fenceReason(subject);
      if (fenced) return fenced;
      return subject.taken_down_by === null
        ? null
        : `Operation ${subject.taken_down_by} is still tearing it down; wait until it ends.`;
    },
  },
  reimage: {
    does: 'tears it down with proof and launches it again as a new instance; its history stays',
    for: 'fleet',
    from: ['ready', 'degraded', 'offline', 'failed', 'draining', 'quarantined'],
    whyNot: (subject) =>
      subject.external
        ? `No driver can image an external machine. ${hasResidue(subject) ? 'Retire it, image it yourself, and let it join again.' : 'Quarantine it, image it yourself, then re-enroll it.'}`
        : reasonAgainstTeardown(subject),
  },
  're-enroll': {
    does: 'lets the machine enrol again as a new instance after it lost its credential, and fences the old one',
    for: 'fleet',
    from: ['offline', 'failed', 'quarantined'],
    whyNot: reasonAgainstEnrolment,
  },
  retire: {
    does: 'tears it down for good, with proof',
    for: 'fleet',
    from: statusesExcept('cleaning'),
    whyNot: reasonAgainstTeardown,
  },
  'retry-release': {
    does: 'retries the failed release of its allocation now',
    for: 'fleet',
    from: liveNodeStatuses,
    whyNot: ({ allocation_status }) => {
      if (allocation_status === 'release_failed') return null;
      return allocation_status === 'releasing'
        ? 'The release of its allocation is under way; it has not failed.'
        : 'No release of its allocation has failed.';
    },
  },
  'force-release': {
    does: 'ends the release of its allocation; anything not proven gone goes on the residue ledger',
    for: 'fleet',
    from: liveNodeStatuses,
    whyNot: ({ allocation_status }) =>
      allocation_status === 'releasing' || allocation_status === 'release_failed'
        ? null
        : 'No release of its allocation runs or has failed; release the allocation first.',
  },
  'accept-key': {
    does: "accepts the agent's current key, given its fingerprint, so that proofs signed with it count",
    for: 'fleet',
    from: liveNodeStatuses,
    whyNot: ({ key_unproven }) => (key_unproven ? null : 'Its key is not in doubt.'),
  },
  'apply-held-verdict': {
    does: 'applies the held verdict now',
    for: 'fleet',
    from: ['provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning'],
    whyNot: ({ held }) => (held === null ? 'No verdict is held.' : null),
  },
  probe: {
    does: 'probes it now and records the result',
    for: 'fleet',
    from: liveNodeStatuses,
    whyNot: ({ node_instance_id, endpoint, status, agentless }) => {
      if (node_instance_id === null) return 'It has no instance.';
      const silence = endpoint === null ? agentSilence(status, agentless) : null;
      return silence && `It has no address to probe, and ${silence}.`;
    },
  },
  'collect-diagnostics': {
    does: 'collects diagnostics from its agent and its provider, and stores them as evidence',
    for: 'fleet',
    from: liveNodeStatuses,
    wrongStatusReasons: { retired: `It is retired; ${savedDiagnosticsWords}` },
    whyNot: ({ node_instance_id }) => (node_instance_id === null ? 'It has no instance.' : null),
  },
} as const satisfies Record<string, NodeAction>;

export type NodeActionName = keyof typeof nodeActions;
export const nodeActionNames = Object.keys(nodeActions) as NodeActionName[];
export type OfferedAction = Offer<NodeActionName>;

export const offeredActions = (subject: ActionSubject, caller: ActionCaller): OfferedAction[] =>
  offersOf<NodeActionName, NodeStatus, ActionSubject>(nodeActions, subject, caller);

/** Why the action is not available; null if it is. */
export const whyNotOnNode = (action: NodeActionName, subject: ActionSubject): string | null =>
  whyNot<NodeStatus, ActionSubject>(nodeActions[action], subject);
