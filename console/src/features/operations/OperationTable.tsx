/** The table of operations. */

import { Link } from '@tanstack/react-router';
import type { Operation } from '../../../../src/contract/operation.ts';
import { operationStatuses } from '../../../../src/lifecycle/model/states.ts';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { OperationStatusBadge } from '../../ui/status/StatusBadges.tsx';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { humanize } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Took } from '../../ui/time/Took.tsx';
import { ProgressLine } from './ProgressLine.tsx';

const columns: Column<Operation>[] = [
  {
    key: 'kind',
    heading: 'Operation',
    sortValue: (operation) => operation.kind,
    cell: (operation) => (
      <Link to="/operations/$id" params={{ id: operation.workflow_id }} className="quiet-link">
        <b>{humanize(operation.kind)}</b>
      </Link>
    ),
  },
  {
    key: 'status',
    heading: 'Status',
    sortValue: (operation) => operationStatuses.indexOf(operation.status),
    cell: (operation) => <OperationStatusBadge status={operation.status} />,
  },
  {
    key: 'progress',
    heading: 'Progress',
    cell: (operation) => <ProgressLine progress={operation.progress} error={operation.error} />,
  },
  {
    key: 'on',
    heading: 'On',
    sortValue: ({ node_id, allocation_id }) => node_id ?? allocation_id ?? '',
    cell: ({ node_id, allocation_id }) => {
      if (node_id)
        return (
          <Link to="/nodes/$id" params={{ id: node_id }} title={node_id}>
            <code>{shortId(node_id)}</code>
          </Link>
        );
      return (
        allocation_id && (
          <Link to="/allocations/$id" params={{ id: allocation_id }} title={allocation_id}>
            <code>{shortId(allocation_id)}</code>
          </Link>
        )
      );
    },
  },
  {
    key: 'requested',
    heading: 'Requested',
    sortValue: (operation) => operation.created_at,
    cell: (operation) => <Ago at={operation.created_at} />,
  },
  { key: 'took', heading: 'Took', cell: (operation) => <Took operation={operation} />, end: true },
  {
    key: 'actor',
    heading: 'By',
    sortValue: (operation) => operation.actor?.name ?? '',
    cell: (operation) => operation.actor?.name,
    wideOnly: true,
  },
  { key: 'id', heading: 'Id', cell: (operation) => <CopyId id={operation.workflow_id} short />, roomyOnly: true },
];

interface Props {
  operations: Operation[];
  sort?: string;
  onSort: (sort: string | undefined) => void;
}

export const OperationTable = ({ operations, sort, onSort }: Props) => (
  <DataTable
    label="Operations"
    columns={columns}
    rows={operations}
    rowKey={(operation) => operation.workflow_id}
    sort={sort}
    onSort={onSort}
  />
);
