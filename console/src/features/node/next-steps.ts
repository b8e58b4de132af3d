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
    occupied: ['probe', 'extend-deadline', 'release'],
    cleanup: ['probe', 'extend-deadline'],
    free: ['probe', 'extend-deadline', 'retire'],
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

/** In these statuses a machine without its usual way out can enrol again. */
const enrolStatuses: ReadonlySet<NodeStatus> = new Set(['failed', 'quarantined']);

/**
 * The steps of the table that the server offers now, and `release` if the table lists it, then
 * every other way out. `re-enroll` comes first if the first step is not available. A retry that the
 * server puts last, because the machine failed repeatedly, comes last.
 */
export function availableSteps<Name extends NodeActionName>(
  node: NodeState,
  offers: readonly { action: Name; open: boolean }[],
  isWayOut: (action: string) => boolean,
): (Name | 'release')[] {
  const open = offers.filter((offer) => offer.open).map(({ action }) => action);
  const listed = nextStepsFor(node);
  const steps = listed.flatMap((name): (Name | 'release')[] =>
    name === 'release' ? [name] : open.filter((action) => action === name),
  );
  const enrols = enrolStatuses.has(node.status) && steps[0] !== listed[0];
  const all = new Set([
    ...open.filter((action) => action === 're-enroll' && enrols),
    ...steps,
    ...open.filter((action) => isWayOut(action)),
  ]);
  const isDiscouraged = (name: string) => name === 'retry' && offers.at(-1)?.action === 'retry';
  return [...all].toSorted((one, other) => Number(isDiscouraged(one)) - Number(isDiscouraged(other)));
}

/** Steps with a button elsewhere on the page. */
const shownElsewhere: ReadonlySet<string> = new Set(['extend-deadline', 'release']);

/** The offers of the available steps, for the page of the node. */
export const leadingOffers = <O extends { action: NodeActionName; open: boolean }>(
  node: NodeState,
  offers: readonly O[],
  isWayOut: (action: string) => boolean,
): O[] =>
  availableSteps(node, offers, isWayOut)
    .filter((name) => !shownElsewhere.has(name))
    .flatMap((name) => offers.filter(({ action }) => action === name));
