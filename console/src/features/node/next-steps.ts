/** What to press about a machine in trouble, first the one that usually helps; Attention and the machine's own page read the same. Pure. */
import type { Node } from '../../../../src/contract/node.ts';
import type { NodeActionName } from '../../../../src/lifecycle/actions/actions.ts';
import type { NodeStatus, Occupancy } from '../../../../src/lifecycle/model/states.ts';

/** What is served is given back first; that is done to the allocation and not to the machine. */
export type NextStep = NodeActionName | 'release';

/** As the table of actions opens them. */
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

/** More time does not help what has ended. */
export function nextStepsFor({ status, occupancy, verdict }: Standing): NextStep[] {
  const steps: readonly NextStep[] = isNamed(status) ? nextSteps[status][occupancy] : [];
  return steps.filter((name) => name !== 'extend-deadline' || !verdict?.certain);
}

/** Told on the page beside what they are about, so that they need no second button above it. */
const besideElsewhere: ReadonlySet<string> = new Set(['extend-deadline', 'release']);

/** In the order of the table, and after it every other way out. */
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
