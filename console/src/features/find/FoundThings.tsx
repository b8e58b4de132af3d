/** Lists the things that an id or a name stands for, with links. */
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

const pages: Record<FoundThing['kind'], (id: string, shown: ReactNode) => ReactNode> = {
  allocation: (id, shown) => (
    <Link to="/allocations/$id" params={{ id }}>
      {shown}
    </Link>
  ),
  operation: (id, shown) => (
    <Link to="/operations/$id" params={{ id }}>
      {shown}
    </Link>
  ),
  node: (id, shown) => (
    <Link to="/nodes/$id" params={{ id }}>
      {shown}
    </Link>
  ),
  residue: (_, shown) => <Link to="/residue">{shown}</Link>,
  finding: (_, shown) => <Link to="/drift">{shown}</Link>,
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
  { key: 'kind', heading: 'What', cell: ({ kind }) => kind },
  { key: 'name', heading: 'Name', cell: ({ kind, id, name }) => pages[kind](id, name ?? id) },
  { key: 'status', heading: 'Status', cell: ({ kind, status }) => <Status kind={kind} status={status} /> },
  { key: 'id', heading: 'Id', cell: ({ id }) => <CopyId id={id} /> },
];

export const FoundThings = ({ items }: { items: FoundThing[] }) => (
  <DataTable
    label="What it stands for"
    columns={columns}
    rows={items}
    rowKey={({ id }) => id}
    sort={undefined}
    onSort={() => {}}
  />
);
