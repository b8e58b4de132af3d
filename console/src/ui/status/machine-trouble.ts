/** An allocation that is active on a machine that does not serve it: what its own status does not say. Pure. */
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Node } from '../../../../src/contract/node.ts';

export const ailingStatuses = ['offline', 'quarantined'] as const;
type AilingStatus = (typeof ailingStatuses)[number];

export interface Ailing {
  status: AilingStatus;
  since: string;
}

export const ailingWords: Record<AilingStatus, { brief: string; says: string }> = {
  offline: { brief: 'machine silent', says: 'Its machine is silent and may not answer.' },
  quarantined: {
    brief: 'machine set aside',
    says: 'Its machine is set aside; a person decides whether it serves again.',
  },
};

const isAiling = (status: string): status is AilingStatus => ailingStatuses.some((ailing) => ailing === status);

/** By the allocation, how its machine ails. */
export const ailingBy = (nodes: readonly Node[]): ReadonlyMap<string, Ailing> =>
  new Map(
    nodes.flatMap(({ allocation_id, status, status_since }) =>
      allocation_id !== null && isAiling(status) ? [[allocation_id, { status, since: status_since }] as const] : [],
    ),
  );

/** Why it is where it is; of one that ails, not that it was once said to be ready. */
export const reasonOf = ({ reason }: Pick<Allocation, 'reason'>, ailing: Ailing | null): string | null =>
  ailing && !reason?.startsWith('its machine') ? ailingWords[ailing.status].says : reason;

/** Only what is called active is misread; every other status tells of its trouble itself. */
export const ailingOf = (
  { allocation_id, status }: Pick<Allocation, 'allocation_id' | 'status'>,
  ailing: ReadonlyMap<string, Ailing>,
): Ailing | null => (status === 'active' ? (ailing.get(allocation_id) ?? null) : null);
