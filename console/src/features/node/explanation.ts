/** The words of why a machine stands where it stands. Pure: the present is a parameter. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Explanation, Holder } from '../../../../src/contract/explanation.ts';
import type { Held } from '../../../../src/contract/node.ts';
import type { NodeActionName, OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';

type Doubt = Pick<Explanation, 'held' | 'would_have'>;

/** A verdict did not take effect, so what the status means is not how the machine is. */
export const isInDoubt = ({ held, would_have }: Doubt): boolean => held !== null || would_have !== null;

/** Whether a step is still ahead. What is held back or only observed was due already; the end of a hold is told with it. */
export const isAhead = (at: string | null, doubt: Doubt, nowMs: number): boolean =>
  at === null || !isInDoubt(doubt) || (Date.parse(at) > nowMs && at !== doubt.held?.held_until);

const keptBy: Record<Held['kind'], string> = {
  'mass-failure': 'too many machines turned bad at once',
  'self-fault': 'the control plane is not sure of its own hearing',
  maintenance: 'somebody works there',
  'provider-away': 'nobody can look at it',
};

export const whyHeld = (held: Held): string => `${keptBy[held.kind]}: ${held.reason}`;

/** The server says what is waited for, or, with a capital, names the step that is being taken. */
export function waitingWords(waiting_for: string): string {
  const words = waiting_for.replace(/^Waiting for /, '');
  return /^[A-Z]/.test(words) ? words : `Waits for ${words}`;
}

/** The allocation whose release has failed on it: until that ends, being cleaned is not what goes on. */
export const stuckRelease = ({ status, holder }: Pick<Explanation, 'status' | 'holder'>): Holder | null =>
  status === 'cleaning' && holder?.status === 'release_failed' ? holder : null;

/** What is waited for, without what failed where that is told already. */
export const withoutReason = (waiting_for: string, stuck: Holder | null): string =>
  stuck?.reason ? waiting_for.replace(`: ${stuck.reason}`, '') : waiting_for;

/** Said elsewhere on the page, or of no use beside the verdict. */
const toldElsewhere = ['node.held', 'node.would_have'];

/** What was found out since, the newest of each kind; the change itself is the verdict's own words. */
export function findings(explanation: Pick<Explanation, 'status' | 'because' | 'holder'>): Evidence[] {
  const { status, because } = explanation;
  const released = stuckRelease(explanation) ? ['allocation.release_failed'] : [];
  const seen = new Set([`node.${status}`, ...toldElsewhere, ...released]);
  return because.evidence.filter(({ kind }) => !seen.has(kind) && seen.add(kind));
}

/** An action that stands beside what it is about, and not only in the menu. */
export const openOffer = ({ actions }: Pick<Explanation, 'actions'>, name: NodeActionName): OfferedAction | undefined =>
  actions.find(({ action, open }) => action === name && open);
