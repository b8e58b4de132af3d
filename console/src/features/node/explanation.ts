/** Explains the status of a machine in words. Pure: the present is a parameter. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Held, Node } from '../../../../src/contract/node.ts';
import type { Progress } from '../../../../src/contract/progress.ts';
import type { Explanation, Holder } from '../../../../src/contract/supervision/explanation.ts';
import type { NodeActionName, OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';

type Doubt = Pick<Explanation, 'held' | 'would_have'>;

/** A verdict did not take effect, so the status does not show how the machine really is. */
export const isInDoubt = ({ held, would_have }: Doubt): boolean => held !== null || would_have !== null;

/** Steps that are held or only observed were due already; the end of a hold is shown with it. */
export const isAhead = (at: string | null, doubt: Doubt, nowMs: number): boolean =>
  at === null || !isInDoubt(doubt) || (Date.parse(at) > nowMs && at !== doubt.held?.held_until);

const heldBecause: Record<Held['kind'], string> = {
  'mass-failure': 'too many machines turned bad at once',
  'self-fault': 'the control plane may have missed heartbeats',
  maintenance: 'a maintenance window covers it',
  'provider-away': 'its provider does not answer',
};

export const whyHeld = (held: Held): string => `${heldBecause[held.kind]}: ${held.reason}`;

/** The allocation whose release failed here; cleaning pauses until the release is retried. */
export const stuckRelease = ({ status, holder }: Pick<Explanation, 'status' | 'holder'>): Holder | null =>
  status === 'cleaning' && holder?.status === 'release_failed' ? holder : null;

type Waiting = Pick<Explanation, 'status' | 'holder' | 'waiting_for' | 'progress'>;

/** Statuses in which the operation on the machine does the work. */
const workedOn: ReadonlySet<NodeStatus> = new Set(['provisioning', 'cleaning']);

/** The running step of the operation on the machine, otherwise what the machine waits for. */
export function waitingWords(explanation: Waiting, node: Pick<Node, 'waiting_for'>): string | null {
  const { status, waiting_for, progress } = explanation;
  const stuck = stuckRelease(explanation);
  // Why the last try failed is shown beside it.
  if (stuck) return `Waits for try ${stuck.release_tries + 1} of its release`;
  if (progress?.status === 'running' && workedOn.has(status) && node.waiting_for !== 'capacity')
    return stepWords(progress);
  return waiting_for && `Waits for ${waiting_for}`;
}

const stepWords = ({ label, message }: Progress): string =>
  message && message !== label ? `${label}: ${message}` : label;

/** Shown elsewhere on the page, or of no use beside the verdict. */
const shownElsewhere = ['node.held', 'node.would_have'];

/** The evidence since the change, newest of each kind. The verdict shows the change itself. */
export function findings(explanation: Pick<Explanation, 'status' | 'because' | 'holder'>): Evidence[] {
  const { status, because } = explanation;
  const released = stuckRelease(explanation) ? ['allocation.release_failed'] : [];
  const seen = new Set([`node.${status}`, ...shownElsewhere, ...released]);
  return because.evidence.filter(({ kind }) => !seen.has(kind) && seen.add(kind));
}

/** An open action that gets a button of its own beside what it is about. */
export const openOffer = ({ actions }: Pick<Explanation, 'actions'>, name: NodeActionName): OfferedAction | undefined =>
  actions.find(({ action, open }) => action === name && open);
