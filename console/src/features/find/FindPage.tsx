/**
 * Redirects an id or a name to its page, or lists the results if there are several. For a
 * correlation id, shows everything that the request did.
 */
import { Button, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, Navigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { Found } from '../../../../src/contract/fleet/find.ts';
import { findQuery } from '../../api/queries/find.ts';
import { poolsQuery } from '../../api/queries/pools.ts';
import { seesWholeFleet, useSession } from '../../api/session.ts';
import { IconFocus2, IconMapOff } from '../../ui/icons.generated.ts';
import columns from '../../ui/layout/Columns.module.css';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { DetailSkeleton } from '../../ui/loading/Skeletons.tsx';
import { Timeline } from '../evidence/Timeline.tsx';
import { FoundThings } from './FoundThings.tsx';

const route = getRouteApi('/frame/find');

export function FindPage() {
  const { id = '' } = route.useSearch();
  const { data: found, error } = useQuery(findQuery(id));
  if (id === '')
    return (
      <Message title="Find any id">
        <Empty icon={IconFocus2} title="Paste any id">
          <p>The id of a node, instance, allocation, operation or request, or the name of a machine.</p>
        </Empty>
      </Message>
    );
  if (error)
    return (
      <>
        <PageHeader title="Find any id" tab="Find" below={<CopyId id={id} />} />
        <FailurePanel error={error} />
      </>
    );
  if (!found) return <DetailSkeleton />;
  if (found.as_request) return <Request id={id} found={found} />;
  if (found.meant) return <GoTo target={found.meant} />;
  if (found.items.length > 0)
    return (
      <>
        <PageHeader title={`Several things are called ${id}`} tab={id} />
        <Panel flush>
          <FoundThings items={found.items} />
        </Panel>
      </>
    );
  return <NothingFound id={id} />;
}

/** A pool has no id, so its name redirects to its machines. */
function NothingFound({ id }: { id: string }) {
  const canListPools = seesWholeFleet(useSession());
  const pools = useQuery({ ...poolsQuery, enabled: canListPools });
  if (canListPools && pools.isPending) return <DetailSkeleton />;
  if (pools.error && !pools.data)
    return (
      <Message title="Find any id">
        <FailurePanel error={pools.error} />
      </Message>
    );
  if (pools.data?.some(({ name }) => name === id)) return <Navigate to="/fleet" search={{ pool: id }} replace />;
  return (
    <Message title="Not found">
      <Empty icon={IconMapOff} title={`Nothing found for ${id}`}>
        <p>
          Nothing that you may see has this id or name. A letter may be missing. To find part of a name, a label or a
          zone, search instead.
        </p>
        <Group justify="center">
          <Button component={Link} to="/fleet" search={{ q: id } as never}>
            Search the fleet
          </Button>
          <Button variant="default" component={Link} to="/allocations" search={{ q: id } as never}>
            Search allocations
          </Button>
          {canListPools && (
            <Button variant="default" component={Link} to="/audit" search={{ target_id: id } as never}>
              Search the audit log
            </Button>
          )}
        </Group>
      </Empty>
    </Message>
  );
}

const Message = ({ title, children }: { title: string; children: React.ReactNode }) => (
  <>
    <PageHeader title={title} tab="Find" />
    <Panel>{children}</Panel>
  </>
);

function GoTo({ target: { kind, id, node_instance_id } }: { target: NonNullable<Found['meant']> }) {
  if (kind === 'allocation') return <Navigate to="/allocations/$id" params={{ id }} replace />;
  if (kind === 'operation') return <Navigate to="/operations/$id" params={{ id }} replace />;
  const search = node_instance_id ? { tab: 'logs', instance: node_instance_id } : {};
  return <Navigate to="/nodes/$id" params={{ id }} search={search} replace />;
}

function Request({ id, found }: { id: string; found: Found }) {
  const [layer, setLayer] = useState<string | undefined>(undefined);
  return (
    <>
      <PageHeader title="Request" tab="Request" below={<CopyId id={id} />} />
      <div className={columns.stack}>
        <Panel title="What the request was about" flush={found.items.length > 0}>
          {found.items.length > 0 ? (
            <FoundThings items={found.items} />
          ) : (
            <Text c="dimmed">The request was about no machine and no allocation.</Text>
          )}
        </Panel>
        <Panel title="Timeline" flush>
          <Timeline subject={{ correlation_id: id }} layer={layer} onLayer={setLayer} />
        </Panel>
      </div>
    </>
  );
}
