/** Lists the console sessions, each with a button that ends it. */
import { Button } from '@mantine/core';
import { useMemo } from 'react';
import type { ConsoleSession } from '../../../../src/contract/security/token.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';

interface Props {
  sessions: ConsoleSession[];
  onRevoke: (session: ConsoleSession) => void;
}

const endOf = ({ expires_at, idle_expires_at }: ConsoleSession) =>
  Date.parse(idle_expires_at) < Date.parse(expires_at) ? idle_expires_at : expires_at;

const columnsFor = (onRevoke: Props['onRevoke']): Column<ConsoleSession>[] => [
  {
    key: 'token',
    heading: 'Token',
    cell: ({ name, current }) => (
      <span>
        <b>{name}</b> {current && '(this browser)'}
      </span>
    ),
  },
  { key: 'address', heading: 'From', cell: ({ address }) => address ?? 'unknown' },
  { key: 'opened', heading: 'Signed in', cell: ({ created_at }) => <Ago at={created_at} /> },
  { key: 'used', heading: 'Last use', cell: ({ last_used_at }) => <Ago at={last_used_at} /> },
  { key: 'ends', heading: 'Ends', cell: (session) => <Ago at={endOf(session)} /> },
  {
    key: 'actions',
    heading: 'Actions',
    end: true,
    cell: (session) => (
      <Button
        size="compact-xs"
        variant="light"
        color="red"
        aria-label={`Revoke session of ${session.name}${session.current ? ' (this browser)' : ''}`}
        onClick={() => onRevoke(session)}
      >
        Revoke
      </Button>
    ),
  },
];

export function SessionTable({ sessions, onRevoke }: Props) {
  const columns = useMemo(() => columnsFor(onRevoke), [onRevoke]);
  return (
    <DataTable
      label="Sessions"
      columns={columns}
      rows={sessions}
      rowKey={({ session_id }) => session_id}
      sort={undefined}
      onSort={() => {}}
    />
  );
}
