/**
 * The actions for a machine in trouble; the action that usually helps comes first. Attention and
 * the node page share this table. Pure.
 */
import type { Node } from '../../../../src/contract/node.ts';
import type { NodeActionName } from '../../../../src/lifecycle/actions/actions.ts';
import type { NodeStatus, Occupancy } from '../../../../src/lifecycle/model/states.ts';

/** `release` acts on the allocation, every other step on the machine. */
export type NextStep = NodeActionName | 'release';

/** A test checks that the action table allows each step in its status. */
const nextSteps = {
  offline: {
    reserved: ['probe', 'extend-deadline'],
    occupied: ['probe', 'release'],
    cleanup: ['probe', 'extend-deadline'],
    free: ['probe', 'retire'],
  },
  failed: {
    reserved: ['retry', 'extend-deadline'],
    occupied: ['release'],
    cleanup: ['retire'],
    free: ['reimage', 'retire'],
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
} as const satisfies Partial<Record<NodeStatus, Record<Occupancy, readonly NextStep[]>>>;

const hasNextSteps = (status: NodeStatus): status is keyof typeof nextSteps => Object.hasOwn(nextSteps, status);

type NodeState = Pick<Node, 'status' | 'occupancy' | 'verdict'>;

/** Leaves out `extend-deadline` after a certain failure, because more time does not help then. */
export function nextStepsFor({ status, occupancy, verdict }: NodeState): NextStep[] {
  const steps: readonly NextStep[] = hasNextSteps(status) ? nextSteps[status][occupancy] : [];
  return steps.filter((name) => name !== 'extend-deadline' || !verdict?.certain);
}

/** Steps with a button elsewhere on the page. */
const shownElsewhere: ReadonlySet<string> = new Set(['extend-deadline', 'release']);

/** The available actions in the order of the table, then every other way out. */
export const leadingOffers = <O extends { action: string; open: boolean }>(
  node: NodeState,
  offers: readonly O[],
  isWayOut: (action: string) => boolean,
): O[] => {
  const steps = nextStepsFor(node).filter((name) => !shownElsewhere.has(name));
  const open = offers.filter((offer) => offer.open);
  const listedOffers = steps.flatMap((name) => open.filter(({ action }) => action === name));
  return [...listedOffers, ...open.filter((offer) => isWayOut(offer.action) && !listedOffers.includes(offer))];
};
