/** The actions on a concern. The action that usually helps comes first. */
import type { Node } from '../../../../src/contract/node.ts';
import type { OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import type { AllocationActionName } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import type { Occupancy } from '../../../../src/lifecycle/model/states.ts';
import type { Action } from '../actions/action.ts';
import { actionLabel, allocationActionLabel, isEnding, isWayOut } from '../actions/words.ts';
import { allocationAction, offerOf } from '../allocation/allocation-actions.ts';
import { decisionAction, decisionLabels, decisionsOn } from '../drift/finding-actions.ts';
import { availableSteps } from '../node/next-steps.ts';
import { nodeAction, nodeOffer } from '../node/node-actions.ts';
import { residueAction, residueActions } from '../residue/residue-actions.ts';
import { resumeAction } from '../supervision/brake-actions.ts';
import type { Concern } from './concerns.ts';

export interface NextAction {
  label: string;
  /** The action helps and ends nothing. Such an action gets the filled button if it comes first. */
  helps: boolean;
  open: () => Action;
}

const allocationSteps = {
  release: ['retry-release', 'force-release'],
  allocation: ['retry', 'release'],
} as const satisfies Record<string, readonly AllocationActionName[]>;

/** The status of a node's allocation, derived from the occupancy to avoid a request per row. */
const allocationStatus: Record<Occupancy, 'provisioning' | 'active' | 'releasing'> = {
  reserved: 'provisioning',
  occupied: 'active',
  cleanup: 'releasing',
  free: 'active',
};

const onMachine = (node: Node, offer: OfferedAction): NextAction => ({
  label: actionLabel(offer.action),
  helps: !isEnding(offer.action),
  open: () => nodeAction(node, offer),
});

function releaseOf(node: Node): NextAction[] {
  const { allocation_id, occupancy } = node;
  if (allocation_id === null) return [];
  const allocation = { allocation_id, name: null, status: allocationStatus[occupancy] };
  return [
    {
      label: allocationActionLabel('release', allocation.status),
      helps: false,
      open: () => allocationAction(allocation, offerOf('release')),
    },
  ];
}

/** `offers`: the actions of the machine, in the order of the server; empty until they are read. */
export function nextActions(concern: Concern, offers: readonly OfferedAction[] = []): NextAction[] {
  switch (concern.kind) {
    case 'hold':
      return [{ label: 'Resume', helps: false, open: () => resumeAction(concern.hold) }];
    case 'server':
    case 'sweep':
      return [];
    case 'release':
    case 'allocation':
      return allocationSteps[concern.kind].map((name) => ({
        label: actionLabel(name),
        helps: !isEnding(name),
        open: () => allocationAction(concern.allocation, offerOf(name)),
      }));
    case 'node':
      return availableSteps(concern.node, offers, isWayOut).flatMap((name) =>
        name === 'release'
          ? releaseOf(concern.node)
          : offers.filter(({ action }) => action === name).map((offer) => onMachine(concern.node, offer)),
      );
    case 'teardown':
      return [onMachine(concern.node, nodeOffer('quarantine'))];
    case 'residue':
      return (['verify', 'delete'] as const).map((action) => ({
        label: residueActions[action].label,
        helps: action === 'verify',
        open: () => residueAction(concern.residue, action),
      }));
    case 'finding':
      return decisionsOn(concern.finding).map((decision) => ({
        label: decisionLabels[decision],
        helps: false,
        open: () => decisionAction(concern.finding, decision),
      }));
  }
}
