/**
 * Finds active allocations whose machine is in trouble, because the status of the allocation hides
 * that. Pure.
 */
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Node } from '../../../../src/contract/node.ts';

const troubleStatuses = ['offline', 'quarantined'] as const;
type TroubleStatus = (typeof troubleStatuses)[number];

export interface MachineTrouble {
  status: TroubleStatus;
  since: string;
}

export const troubleWords: Record<TroubleStatus, { label: string; sentence: string }> = {
  offline: { label: 'machine silent', sentence: 'The machine is silent and may not answer.' },
  quarantined: {
    label: 'machine quarantined',
    sentence: 'The machine is quarantined. A person decides whether it serves again.',
  },
};

const isTrouble = (status: string): status is TroubleStatus => troubleStatuses.some((each) => each === status);

export const troubleByAllocation = (nodes: readonly Node[]): ReadonlyMap<string, MachineTrouble> =>
  new Map(
    nodes.flatMap(({ allocation_id, status, status_since }) =>
      allocation_id !== null && isTrouble(status) ? [[allocation_id, { status, since: status_since }] as const] : [],
    ),
  );

/** Only the status `active` hides trouble; the other statuses have reasons of their own. */
export const troubleOf = (
  { allocation_id, status }: Pick<Allocation, 'allocation_id' | 'status'>,
  troubles: ReadonlyMap<string, MachineTrouble>,
): MachineTrouble | null => (status === 'active' ? (troubles.get(allocation_id) ?? null) : null);

/** In trouble, the stored reason of an allocation (that it became ready) would mislead. */
export const reasonOf = ({ reason }: Pick<Allocation, 'reason'>, trouble: MachineTrouble | null): string | null =>
  trouble ? troubleWords[trouble.status].sentence : reason;
