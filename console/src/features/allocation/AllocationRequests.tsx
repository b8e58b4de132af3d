/** Every request that touched an allocation, oldest first, with caller and correlation id. */
import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { findQuery } from '../../api/queries/find.ts';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';
import styles from './AllocationRequests.module.css';

export function AllocationRequests({ allocation }: { allocation: Allocation }) {
  const { allocation_id, correlation_id, status } = allocation;
  // Each request changes the correlation id or the status, so this key makes the list load again.
  const { data, error } = useQuery(findQuery(allocation_id, `${correlation_id} ${status}`));
  if (error) return <FailurePanel error={error} />;
  const requests = data?.requests ?? [];
  if (requests.length === 0) return null;
  return (
    <Panel title="Requests">
      <ol className={styles.requests}>
        {requests.map(({ correlation_id, at, summary, actor }) => (
          <li key={correlation_id}>
            <Link to="/find" search={{ id: correlation_id }}>
              {withLocalTimes(summary)}
            </Link>
            <Text size="sm" c="dimmed">
              {actor && `${actor}, `}
              <Ago at={at} />
            </Text>
            <CopyId id={correlation_id} />
          </li>
        ))}
      </ol>
    </Panel>
  );
}
