/** The fleet as rows, for those who compare. */
import { Link } from '@tanstack/react-router';
import type { Node } from '../../../src/contract/node.ts';
import { nodeStatusNames } from '../../../src/lifecycle/states.ts';
import { Ago } from './Ago.tsx';
import { CopyId } from './CopyId.tsx';
import { Countdown } from './Countdown.tsx';
import { type Column, DataTable } from './DataTable.tsx';
import { HeldTag } from './HeldSign.tsx';
import { NodeStatusBadge } from './StatusBadges.tsx';

const columns: Column<Node>[] = [
  {
    key: 'name',
    heading: 'Name',
    by: (node) => node.name,
    cell: (node) => (
      <Link to="/nodes/$id" params={{ id: node.node_id }} className="quiet-link">
        <b>{node.name}</b>
      </Link>
    ),
  },
  {
    key: 'status',
    heading: 'Status',
    by: (node) => nodeStatusNames.indexOf(node.status),
    cell: (node) => (
      <span>
        <NodeStatusBadge status={node.status} /> <HeldTag node={node} />
      </span>
    ),
  },
  {
    key: 'since',
    heading: 'For',
    by: (node) => node.status_since,
    cell: (node) => <Ago at={node.status_since} asAge />,
  },
  {
    key: 'deadline',
    heading: 'Deadline',
    by: (node) => node.deadline_at ?? '~',
    cell: (node) => node.deadline_at && <Countdown at={node.deadline_at} budget_seconds={node.budget_seconds} />,
  },
  { key: 'pool', heading: 'Pool', by: (node) => node.pool, cell: (node) => node.pool },
  { key: 'zone', heading: 'Zone', by: (node) => node.zone ?? '', cell: (node) => node.zone, wideOnly: true },
  { key: 'occupancy', heading: 'Occupancy', by: (node) => node.occupancy, cell: (node) => node.occupancy },
  {
    key: 'seen',
    heading: 'Last seen',
    by: (node) => node.last_seen_at ?? '',
    cell: (node) => node.last_seen_at && <Ago at={node.last_seen_at} />,
  },
  { key: 'id', heading: 'Id', cell: (node) => <CopyId id={node.node_id} short />, wideOnly: true },
];

interface Props {
  nodes: Node[];
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

export const FleetTable = ({ nodes, sort, onSort }: Props) => (
  <DataTable
    label="Nodes"
    columns={columns}
    rows={nodes}
    rowKey={(node) => node.node_id}
    sort={sort ?? 'name'}
    onSort={onSort}
  />
);
