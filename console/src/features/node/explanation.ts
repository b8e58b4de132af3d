/** Explains the status of a machine in words. Pure: callers pass the current time. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Held, Node } from '../../../../src/contract/node.ts';
import type { Progress } from '../../../../src/contract/progress.ts';
import type { Explanation, Holder } from '../../../../src/contract/supervision/explanation.ts';
import type { NodeActionName, OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';

type Doubt = Pick<Explanation, 'held' | 'would_have'>;

/** Whether a verdict did not take effect, so that the status may not show the real state. */
export const isInDoubt = ({ held, would_have }: Doubt): boolean => held !== null || would_have !== null;

/**
 * Whether to list a step. In doubt, steps that were already due are hidden, because their verdict
 * is held or only observed. The notice shows the end of a hold.
 */
export const isAhead = (at: string | null, doubt: Doubt, nowMs: number): boolean =>
  at === null || !isInDoubt(doubt) || (Date.parse(at) > nowMs && at !== doubt.held?.held_until);

const holdCauses: Record<Held['kind'], string> = {
  'mass-failure': 'too many machines turned bad at once',
  'self-fault': 'the control plane may have missed heartbeats',
  maintenance: 'a maintenance window covers it',
  'provider-away': 'its provider does not answer',
};

export const holdReason = (held: Held): string => `${holdCauses[held.kind]}: ${held.reason}`;

/**
 * The allocation whose release failed on this machine. Cleaning pauses until the release is
 * retried.
 */
export const stuckRelease = ({ status, holder }: Pick<Explanation, 'status' | 'holder'>): Holder | null =>
  status === 'cleaning' && holder?.status === 'release_failed' ? holder : null;

type Waiting = Pick<Explanation, 'status' | 'holder' | 'waiting_for' | 'progress'>;

/** Statuses in which an operation works on the machine. */
const operationStatuses: ReadonlySet<NodeStatus> = new Set(['provisioning', 'cleaning']);

/** The running step of the operation on the machine, or else what the machine waits for. */
export function waitingWords(explanation: Waiting, node: Pick<Node, 'waiting_for'>): string | null {
  const { status, waiting_for, progress } = explanation;
  const stuck = stuckRelease(explanation);
  // The reason of the last failure is shown next to this text.
  if (stuck) return `Waits for try ${stuck.release_tries + 1} of its release`;
  if (progress?.status === 'running' && operationStatuses.has(status) && node.waiting_for !== 'capacity')
    return stepWords(progress);
  return waiting_for && `Waits for ${waiting_for}`;
}

const stepWords = ({ label, message }: Progress): string =>
  message && message !== label ? `${label}: ${message}` : label;

/** Kinds of evidence that the notice above already shows. */
const kindsShownElsewhere = ['node.held', 'node.would_have'];

/** The newest evidence of each kind since the status changed, without the change itself. */
export function selectEvidence(explanation: Pick<Explanation, 'status' | 'because' | 'holder'>): Evidence[] {
  const { status, because } = explanation;
  const releaseKinds = stuckRelease(explanation) ? ['allocation.release_failed'] : [];
  const seen = new Set([`node.${status}`, ...kindsShownElsewhere, ...releaseKinds]);
  return because.evidence.filter(({ kind }) => !seen.has(kind) && seen.add(kind));
}

/** The offer of an action, if the action is available now. */
export const openOffer = ({ actions }: Pick<Explanation, 'actions'>, name: NodeActionName): OfferedAction | undefined =>
  actions.find(({ action, open }) => action === name && open);
