/** Lists the results for an id or a name, with links. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { FoundThing } from '../../../../src/contract/fleet/find.ts';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { StatusBadge } from '../../ui/status/StatusBadge.tsx';
import {
  allocationLooks,
  findingLooks,
  type Look,
  nodeLooks,
  operationLooks,
  residueLooks,
} from '../../ui/status/status-looks.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';

const pages: Record<FoundThing['kind'], (id: string, label: ReactNode) => ReactNode> = {
  allocation: (id, label) => (
    <Link to="/allocations/$id" params={{ id }}>
      {label}
    </Link>
  ),
  operation: (id, label) => (
    <Link to="/operations/$id" params={{ id }}>
      {label}
    </Link>
  ),
  node: (id, label) => (
    <Link to="/nodes/$id" params={{ id }}>
      {label}
    </Link>
  ),
  residue: (_, label) => <Link to="/residue">{label}</Link>,
  finding: (_, label) => <Link to="/drift">{label}</Link>,
};

const looks: Record<FoundThing['kind'], Readonly<Record<string, Look>>> = {
  allocation: allocationLooks,
  operation: operationLooks,
  node: nodeLooks,
  residue: residueLooks,
  finding: findingLooks,
};

function Status({ kind, status }: Pick<FoundThing, 'kind' | 'status'>) {
  const look = looks[kind][status];
  return look ? <StatusBadge look={look} status={status} /> : status.replaceAll('_', ' ');
}

const columns: Column<FoundThing>[] = [
  { key: 'kind', heading: 'Kind', cell: ({ kind }) => kind },
  { key: 'name', heading: 'Name', cell: ({ kind, id, name }) => pages[kind](id, name ?? id) },
  { key: 'status', heading: 'Status', cell: ({ kind, status }) => <Status kind={kind} status={status} /> },
  { key: 'id', heading: 'Id', cell: ({ id }) => <CopyId id={id} /> },
];

export const FoundThings = ({ items }: { items: FoundThing[] }) => (
  <DataTable
    label="Results"
    columns={columns}
    rows={items}
    rowKey={({ id }) => id}
    sort={undefined}
    onSort={() => {}}
  />
);
