/**
 * Details of a machine in trouble: its allocation, who quarantined it, and since when its release
 * fails.
 */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Node } from '../../../../src/contract/node.ts';
import { allocationQuery } from '../../api/queries/allocations.ts';
import { firstFailureQuery, nodeStatusFactQuery } from '../../api/queries/timeline.ts';
import { shortId } from '../../ui/layout/CopyId.tsx';
import { ownerWords } from '../../ui/text.ts';

/** Links the allocation on a machine, by name if it has one. */
export function AffectedAllocation({ allocation_id }: { allocation_id: string }) {
  const { data } = useQuery(allocationQuery(allocation_id));
  return (
    <>
      allocation{' '}
      <Link to="/allocations/$id" params={{ id: allocation_id }} title={allocation_id}>
        {data?.name ?? shortId(allocation_id)}
      </Link>
      {data && ` of ${data.tenant}`}
    </>
  );
}

/** Names the person who quarantined the machine, or else the owner of the verdict. */
export function QuarantinedBy({ node: { node_id, status, status_since, verdict } }: { node: Node }) {
  const { data } = useQuery(nodeStatusFactQuery(node_id, status, status_since));
  const owner = verdict?.owner && ownerWords(verdict.owner);
  return data?.actor ? `by ${data.actor.name}` : owner;
}

type Failing = Pick<Allocation, 'allocation_id' | 'release_tries' | 'status_since'>;

/** Each failed try restarts `status_since`, so use the time of the first failure. */
export function useFailingSince(failing: Failing | null): string | undefined {
  const { data } = useQuery({
    ...firstFailureQuery(failing?.allocation_id ?? ''),
    enabled: failing !== null && failing.release_tries > 1,
  });
  return data?.at ?? failing?.status_since;
}
