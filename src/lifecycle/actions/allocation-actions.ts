/**
 * The actions on an allocation: when each is available, and to whom. The preconditions of actions
 * on the allocation's machine come from the node actions.
 */
import { type AllocationStatus, allocationStatusNames } from '../model/states.ts';
import { type ActionCaller, type ActionRow, type Offer, offersOf, whyNot } from './action-table.ts';
import { type ActionSubject, type NodeActionName, savedDiagnosticsWords, whyNotOnNode } from './actions.ts';

export interface AllocationSubject {
  status: AllocationStatus;
  deadline_at: Date | string | null;
  /** Set if the allocation has, or had, a machine. */
  node_id: string | null;
  /** Null if the machine is gone or belongs to another allocation. */
  node: ActionSubject | null;
}

export type AllocationAction = ActionRow<AllocationStatus, AllocationSubject>;

/** Builds the precondition of an action on the allocation's machine. */
const checkOnMachine =
  (action: NodeActionName, reasonIfGone: string) =>
  ({ node_id, node }: AllocationSubject): string | null => {
    if (node_id === null) return 'It has no machine.';
    if (node === null) return reasonIfGone;
    const why = whyNotOnNode(action, node);
    return why && `Its machine: ${why}`;
  };

const machineGoneWords = 'It no longer has its machine';
const checkMachineDeadline = checkOnMachine('extend-deadline', `${machineGoneWords}.`);

export const allocationActions = {
  retry: {
    does: 'retries with a new instance, once the old one is torn down',
    for: 'tenant',
    from: ['failed'],
  },
  release: {
    does: 'releases it; before it is active, this cancels it with proof',
    for: 'tenant',
    from: ['requested', 'provisioning', 'active', 'failed'],
    wrongStatusReasons: {
      releasing: 'Its release is under way.',
      release_failed: 'Its release failed; use retry-release.',
      released: 'It is released.',
    },
  },
  'retry-release': {
    does: 'retries the failed release now',
    for: 'tenant',
    from: ['release_failed'],
    wrongStatusReasons: { releasing: 'Its release is under way; it has not failed.' },
  },
  'force-release': {
    does: 'ends its release; anything not proven gone goes on the residue ledger',
    for: 'fleet',
    from: ['releasing', 'release_failed'],
    wrongStatusReasons: { released: 'It is released.' },
  },
  'extend-deadline': {
    does: 'gives it more time',
    for: 'fleet',
    from: ['requested', 'provisioning', 'failed', 'releasing'],
    // While the machine comes up or can be rescued, the allocation has the deadline of its machine.
    whyNot: (subject) => {
      if (subject.status === 'provisioning' || subject.status === 'failed') return checkMachineDeadline(subject);
      return subject.deadline_at === null ? 'It has no deadline.' : null;
    },
  },
  'accept-key': {
    does: "accepts the agent's current key, given its fingerprint, so that proofs signed with it count",
    for: 'fleet',
    from: allocationStatusNames,
    whyNot: checkOnMachine('accept-key', `${machineGoneWords}.`),
  },
  'apply-held-verdict': {
    does: 'applies the held verdict on its machine now',
    for: 'fleet',
    from: allocationStatusNames,
    whyNot: checkOnMachine('apply-held-verdict', `${machineGoneWords}.`),
  },
  probe: {
    does: 'probes its machine now and records the result',
    for: 'fleet',
    from: allocationStatusNames,
    whyNot: checkOnMachine('probe', `${machineGoneWords}.`),
  },
  'collect-diagnostics': {
    does: 'collects diagnostics from its machine, and stores them as evidence',
    for: 'fleet',
    from: allocationStatusNames,
    whyNot: checkOnMachine('collect-diagnostics', `${machineGoneWords}; ${savedDiagnosticsWords}`),
  },
} as const satisfies Record<string, AllocationAction>;

export type AllocationActionName = keyof typeof allocationActions;
export const allocationActionNames = Object.keys(allocationActions) as AllocationActionName[];
export type OfferedAllocationAction = Offer<AllocationActionName>;

export const offeredAllocationActions = (subject: AllocationSubject, caller: ActionCaller): OfferedAllocationAction[] =>
  offersOf<AllocationActionName, AllocationStatus, AllocationSubject>(allocationActions, subject, caller);

/** Why the action is not available; null if it is. */
export const whyNotOnAllocation = (action: AllocationActionName, subject: AllocationSubject): string | null =>
  whyNot<AllocationStatus, AllocationSubject>(allocationActions[action], subject);
