/** Shows a fleet too large to draw, as counts by pool or as the server's search results. */
import { Skeleton, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { FleetCounts as Counted } from '../../../../src/contract/fleet/fleet.ts';
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import { fleetNodeOf } from '../../api/cache/fleet-node.ts';
import { countsByPool, totalOf } from '../../api/queries/fleet-size.ts';
import { fleetSearchQuery } from '../../api/queries/nodes.ts';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { FleetCounts } from './FleetCounts.tsx';
import { FleetTable } from './FleetTable.tsx';

interface Props {
  counts: Counted['items'];
  q: string | undefined;
  statuses: ReadonlySet<NodeStatus>;
  /** Nodes with a failed release, and why. */
  stuck: ReadonlyMap<string, string>;
}

export function LargeFleet({ counts, q, statuses, stuck }: Props) {
  if (!q && statuses.size === 0) return <FleetCounts pools={countsByPool(counts)} total={totalOf(counts)} />;
  return <SearchResults q={q} status={[...statuses][0]} isFirstOfSeveral={statuses.size > 1} stuck={stuck} />;
}

interface ResultsProps extends Pick<Props, 'q' | 'stuck'> {
  status: NodeStatus | undefined;
  isFirstOfSeveral: boolean;
}

function SearchResults({ q, status, isFirstOfSeveral, stuck }: ResultsProps) {
  const { data, error } = useQuery(fleetSearchQuery(q, status));
  if (error) return <FailurePanel error={error} />;
  if (!data) return <Skeleton height={180} radius="lg" role="status" aria-label="Loading" />;
  return (
    <Panel flush>
      <FleetTable stuck={stuck} nodes={data.items.map(fleetNodeOf)} sort={undefined} onSort={() => undefined} />
      <Text p="sm" ta="center" size="sm" c="dimmed">
        {data.items.length === 0 ? 'Nothing found' : `The newest ${data.items.length} matches`}
        {isFirstOfSeveral && ` with status ${status}`}
        {data.next_cursor !== null && '. Not every machine was searched. Search for a whole name to be sure'}.
      </Text>
    </Panel>
  );
}
