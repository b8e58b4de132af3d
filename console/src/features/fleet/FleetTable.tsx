/** The fleet as a table. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Node } from '../../../../src/contract/node.ts';
import { displayOccupancy, nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';
import { nodeRowsQuery } from '../../api/queries/nodes.ts';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { AllocationStatusBadge, NodeStatusBadge } from '../../ui/status/StatusBadges.tsx';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';
import { isoOf } from '../../ui/time/times.ts';
import { HeldTag } from '../supervision/HeldVerdicts.tsx';

/** `more` holds the fields that the fleet store lacks; they are read for the visible rows only. */
type Row = FleetNode & { more: Node | undefined; stuck: boolean };

const columns: Column<Row>[] = [
  {
    key: 'name',
    heading: 'Name',
    sortValue: (node) => node.name,
    cell: (node) => (
      <Link to="/nodes/$id" params={{ id: node.node_id }} className="quiet-link">
        <b>{node.name}</b>
      </Link>
    ),
  },
  {
    key: 'status',
    heading: 'Status',
    sortValue: (node) => nodeStatusNames.indexOf(node.status),
    cell: (node) => (
      <span>
        {node.stuck ? <AllocationStatusBadge status="release_failed" /> : <NodeStatusBadge status={node.status} />}{' '}
        <HeldTag node={{ held: node.held && (node.more?.held ?? true) }} />
      </span>
    ),
  },
  {
    key: 'since',
    heading: 'For',
    sortValue: (node) => node.since_ms,
    cell: (node) => <Ago at={isoOf(node.since_ms)} asAge />,
  },
  {
    key: 'deadline',
    heading: 'Deadline',
    sortValue: (node) => node.deadline_ms ?? Number.POSITIVE_INFINITY,
    cell: ({ deadline_ms, more }) =>
      deadline_ms !== null && <Countdown at={isoOf(deadline_ms)} budget_seconds={more?.budget_seconds ?? null} />,
  },
  { key: 'pool', heading: 'Pool', sortValue: (node) => node.pool, cell: (node) => node.pool },
  { key: 'zone', heading: 'Zone', sortValue: (node) => node.zone ?? '', cell: (node) => node.zone, wideOnly: true },
  {
    key: 'occupancy',
    heading: 'Occupancy',
    sortValue: ({ more }) => (more && displayOccupancy(more)) ?? '',
    cell: ({ more }) => more && displayOccupancy(more),
  },
  {
    key: 'seen',
    heading: 'Last seen',
    sortValue: ({ more }) => more?.last_seen_at ?? '',
    cell: ({ more }) => more?.last_seen_at && <Ago at={more.last_seen_at} />,
  },
  { key: 'id', heading: 'Id', cell: (node) => <CopyId id={node.node_id} short />, wideOnly: true },
];

interface Props {
  nodes: FleetNode[];
  /** Nodes with a failed release. */
  stuck: ReadonlyMap<string, string>;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

export function FleetTable({ nodes, stuck, sort, onSort }: Props) {
  const ids = useMemo(() => nodes.map(({ node_id }) => node_id), [nodes]);
  const { data } = useQuery(nodeRowsQuery(ids));
  const rows = useMemo(
    () => nodes.map((node) => ({ ...node, more: data?.get(node.node_id), stuck: stuck.has(node.node_id) })),
    [nodes, stuck, data],
  );
  return (
    <DataTable
      label="Nodes"
      columns={columns}
      rows={rows}
      rowKey={(node) => node.node_id}
      sort={sort ?? 'name'}
      onSort={onSort}
    />
  );
}
