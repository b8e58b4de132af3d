/**
 * Trouble of a machine that an active allocation runs on, which the allocation's own status hides.
 * Pure.
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
  offline: { label: 'machine silent', sentence: 'Its machine is silent and may not answer.' },
  quarantined: {
    label: 'machine set aside',
    sentence: 'Its machine is set aside; a person decides whether it serves again.',
  },
};

const isTrouble = (status: string): status is TroubleStatus => troubleStatuses.some((each) => each === status);

export const troubleByAllocation = (nodes: readonly Node[]): ReadonlyMap<string, MachineTrouble> =>
  new Map(
    nodes.flatMap(({ allocation_id, status, status_since }) =>
      allocation_id !== null && isTrouble(status) ? [[allocation_id, { status, since: status_since }] as const] : [],
    ),
  );

/** Only `active` hides the trouble; every other status of an allocation already reports its own. */
export const troubleOf = (
  { allocation_id, status }: Pick<Allocation, 'allocation_id' | 'status'>,
  troubles: ReadonlyMap<string, MachineTrouble>,
): MachineTrouble | null => (status === 'active' ? (troubles.get(allocation_id) ?? null) : null);

/** The reason of the allocation says that it became ready, which no longer explains it. */
export const reasonOf = ({ reason }: Pick<Allocation, 'reason'>, trouble: MachineTrouble | null): string | null =>
  trouble ? troubleWords[trouble.status].sentence : reason;
