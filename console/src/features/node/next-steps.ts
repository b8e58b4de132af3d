/**
 * The actions for a machine in trouble, the one that usually helps first. Attention and the node
 * page share it. Pure.
 */
import type { Node } from '../../../../src/contract/node.ts';
import type { NodeActionName } from '../../../../src/lifecycle/actions/actions.ts';
import type { NodeStatus, Occupancy } from '../../../../src/lifecycle/model/states.ts';

/** An allocation is released first; that acts on the allocation, not on the machine. */
export type NextStep = NodeActionName | 'release';

/** Matches the table of actions. */
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

const isNamed = (status: NodeStatus): status is keyof typeof nextSteps => Object.hasOwn(nextSteps, status);

type Standing = Pick<Node, 'status' | 'occupancy' | 'verdict'>;

/** More time does not help a machine that has ended. */
export function nextStepsFor({ status, occupancy, verdict }: Standing): NextStep[] {
  const steps: readonly NextStep[] = isNamed(status) ? nextSteps[status][occupancy] : [];
  return steps.filter((name) => name !== 'extend-deadline' || !verdict?.certain);
}

/** These have a button elsewhere on the page. */
const besideElsewhere: ReadonlySet<string> = new Set(['extend-deadline', 'release']);

/** In the order of the table, then every other way out. */
export const leadingOffers = <O extends { action: string; open: boolean }>(
  node: Standing,
  offers: readonly O[],
  isWayOut: (action: string) => boolean,
): O[] => {
  const steps = nextStepsFor(node).filter((name) => !besideElsewhere.has(name));
  const open = offers.filter((offer) => offer.open);
  const named = steps.flatMap((name) => open.filter(({ action }) => action === name));
  return [...named, ...open.filter((offer) => isWayOut(offer.action) && !named.includes(offer))];
};
