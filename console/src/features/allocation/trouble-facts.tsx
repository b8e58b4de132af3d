/** What a concern does not carry itself and is read beside it: who is hurt, who did it, and since when it really is so. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Node } from '../../../../src/contract/node.ts';
import { allocationQuery } from '../../api/queries/allocations.ts';
import { firstFailureQuery, nodeStatusFactQuery } from '../../api/queries/timeline.ts';
import { shortId } from '../../ui/layout/CopyId.tsx';

/** The claim on a machine, by the name that its tenant gave it. */
export function HurtAllocation({ allocation_id }: { allocation_id: string }) {
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

/** Whoever set it aside, where that was a person. */
export function SetAsideBy({ node: { node_id, status, status_since, verdict } }: { node: Node }) {
  const { data } = useQuery(nodeStatusFactQuery(node_id, status, status_since));
  const owner = verdict?.owner && `owner: ${verdict.owner}`;
  return data?.actor ? `by ${data.actor.name}` : owner;
}

type Failing = Pick<Allocation, 'allocation_id' | 'release_tries' | 'status_since'>;

/** Every try that fails moves the status anew; whoever waits has waited since the first. */
export function useFailingSince(failing: Failing | null): string | undefined {
  const { data } = useQuery({
    ...firstFailureQuery(failing?.allocation_id ?? ''),
    enabled: failing !== null && failing.release_tries > 1,
  });
  return data?.at ?? failing?.status_since;
}
