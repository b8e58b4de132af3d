/** Lists every token without its secret, each with a button that revokes it. */
import { Button } from '@mantine/core';
import { useMemo } from 'react';
import type { Token, TokenRole } from '../../../../src/contract/security/token.ts';
import { IconEye, IconKey, IconTool, IconTransfer } from '../../ui/icons.generated.ts';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { StatusBadge } from '../../ui/status/StatusBadge.tsx';
import type { Look } from '../../ui/status/status-looks.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { roleWords } from './tokens.ts';

const roleLooks: Record<TokenRole, Look> = {
  viewer: { tone: 'idle', icon: IconEye },
  operator: { tone: 'busy', icon: IconTool },
  admin: { tone: 'held', icon: IconKey },
  relay: { tone: 'idle', icon: IconTransfer },
};

interface Props {
  tokens: Token[];
  /** The id of the token of this session. */
  own: string;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  onRevoke: (token: Token) => void;
}

const columnsFor = (own: string, onRevoke: Props['onRevoke']): Column<Token>[] => [
  {
    key: 'name',
    heading: 'Name',
    sortValue: ({ name }) => name,
    cell: ({ name, token_id }) => (
      <span>
        <b>{name}</b> {token_id === own && '(you)'}
      </span>
    ),
  },
  {
    key: 'role',
    heading: 'Role',
    sortValue: ({ role }) => role,
    cell: ({ role }) => <StatusBadge look={roleLooks[role]} status={role} means={roleWords[role]} />,
  },
  {
    key: 'tenant',
    heading: 'Tenant',
    sortValue: ({ tenant }) => tenant ?? '',
    cell: ({ tenant, pool }) => (pool ? `pool ${pool}` : (tenant ?? 'all')),
  },
  {
    key: 'created',
    heading: 'Created',
    sortValue: ({ created_at }) => created_at,
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
  {
    key: 'used',
    heading: 'Last use',
    sortValue: ({ last_used_at }) => last_used_at ?? '',
    cell: ({ last_used_at }) => (last_used_at ? <Ago at={last_used_at} /> : 'never'),
  },
  {
    key: 'expires',
    heading: 'Ends',
    sortValue: ({ expires_at }) => expires_at ?? '~',
    cell: ({ expires_at }) => (expires_at ? <Ago at={expires_at} /> : 'when revoked'),
  },
  { key: 'id', heading: 'Id', cell: ({ token_id }) => <CopyId id={token_id} short />, wideOnly: true },
  {
    key: 'actions',
    heading: 'Actions',
    end: true,
    cell: (token) => (
      <Button
        size="compact-xs"
        variant="light"
        color="red"
        aria-label={`Revoke ${token.name}`}
        onClick={() => onRevoke(token)}
      >
        Revoke
      </Button>
    ),
  },
];

export function TokenTable({ tokens, own, sort, onSort, onRevoke }: Props) {
  const columns = useMemo(() => columnsFor(own, onRevoke), [own, onRevoke]);
  return (
    <DataTable
      label="Tokens"
      columns={columns}
      rows={tokens}
      rowKey={({ token_id }) => token_id}
      sort={sort ?? 'name'}
      onSort={onSort}
    />
  );
}
