/** The next thing to press about a concern, first the one that usually helps; each opens a dialog with a look ahead. */
import type { Node } from '../../../src/contract/node.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions.ts';
import type { AllocationActionName } from '../../../src/lifecycle/allocation-actions.ts';
import type { NodeStatus, Occupancy } from '../../../src/lifecycle/states.ts';
import { actionLabel, isEnding } from '../words/actions.ts';
import type { Concern } from '../words/attention.ts';
import type { Action } from './action.ts';
import { allocationAction, offerOf } from './allocation-actions.ts';
import { resumeAction } from './brake-actions.ts';
import { decisionAction, decisionLabels, decisionsOn } from './finding-actions.ts';
import { nodeAction, nodeOffer } from './node-actions.ts';
import { deeds, residueAction } from './residue-actions.ts';

export interface NextAction {
  label: string;
  ending: boolean;
  open: () => Action;
}

/** As the table of actions opens them; what is served is given back first. */
const onNode: Record<
  'failed' | 'quarantined' | 'degraded' | 'offline',
  Record<Occupancy, readonly (NodeActionName | 'release')[]>
> = {
  failed: {
    reserved: ['retry', 'extend-deadline'],
    occupied: ['release'],
    cleanup: ['retire'],
    free: ['reimage', 'retire'],
  },
  offline: {
    reserved: ['probe', 'extend-deadline'],
    occupied: ['probe', 'release'],
    cleanup: ['probe', 'extend-deadline'],
    free: ['probe', 'retire'],
  },
  degraded: {
    reserved: ['collect-diagnostics', 'drain'],
    occupied: ['collect-diagnostics', 'drain'],
    cleanup: ['collect-diagnostics'],
    free: ['collect-diagnostics', 'reimage'],
  },
  quarantined: {
    free: ['reactivate', 'retire'],
    reserved: ['release'],
    occupied: ['reactivate', 'release'],
    cleanup: ['reimage', 'retire'],
  },
};

const isNamed = (status: NodeStatus): status is keyof typeof onNode => Object.hasOwn(onNode, status);

const onAllocation = {
  release: ['retry-release', 'force-release'],
  allocation: ['retry', 'release'],
} as const satisfies Record<string, readonly AllocationActionName[]>;

const holderStatus: Record<Occupancy, 'provisioning' | 'active' | 'releasing'> = {
  reserved: 'provisioning',
  occupied: 'active',
  cleanup: 'releasing',
  free: 'active',
};

function nodeNext(node: Node, name: NodeActionName | 'release'): NextAction[] {
  if (name !== 'release')
    return [{ label: actionLabel(name), ending: isEnding(name), open: () => nodeAction(node, nodeOffer(name)) }];
  const { allocation_id, occupancy } = node;
  if (allocation_id === null) return [];
  const held = { allocation_id, name: null, status: holderStatus[occupancy] };
  return [{ label: 'Release', ending: true, open: () => allocationAction(held, offerOf('release')) }];
}

export function nextActions(concern: Concern): NextAction[] {
  switch (concern.kind) {
    case 'hold':
      return [{ label: 'Resume', ending: true, open: () => resumeAction(concern.hold) }];
    case 'rule':
      return [];
    case 'release':
    case 'allocation':
      return onAllocation[concern.kind].map((name) => ({
        label: actionLabel(name),
        ending: isEnding(name),
        open: () => allocationAction(concern.allocation, offerOf(name)),
      }));
    case 'node': {
      const { node } = concern;
      if (!isNamed(node.status)) return [];
      return onNode[node.status][node.occupancy]
        .filter((name) => name !== 'extend-deadline' || !node.verdict?.certain)
        .flatMap((name) => nodeNext(node, name));
    }
    case 'take_down':
      return nodeNext(concern.node, 'quarantine');
    case 'residue':
      return (['verify', 'delete'] as const).map((deed) => ({
        label: deeds[deed].label,
        ending: deed === 'delete',
        open: () => residueAction(concern.residue, deed),
      }));
    case 'finding':
      return decisionsOn(concern.finding).map((decision) => ({
        label: decisionLabels[decision],
        ending: decision === 'repair',
        open: () => decisionAction(concern.finding, decision),
      }));
  }
}
