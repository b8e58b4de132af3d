/** Tokens, sessions and the server's settings. */
import { Button, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { sessionsQuery } from '../../api/queries/sessions.ts';
import { serverStatusQuery } from '../../api/queries/supervision.ts';
import { settingsQuery, tokensQuery } from '../../api/queries/tokens.ts';
import { isAdmin, mayOperate, useSession } from '../../api/session.ts';
import { IconPlus } from '../../ui/icons.generated.ts';
import columns from '../../ui/layout/Columns.module.css';
import { Facts } from '../../ui/layout/Facts.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { TokenDialog } from './lazy-dialog.ts';
import { SessionTable } from './SessionTable.tsx';
import { revokeSessionAction } from './session-actions.ts';
import { TokenTable } from './TokenTable.tsx';
import { revokeAction } from './token-actions.ts';
import { licencesFact, settingRows, sourcedRows, whereFrom } from './words.ts';

const route = getRouteApi('/frame/settings');

export function SettingsPage() {
  const session = useSession();
  return (
    <>
      <PageHeader
        title="Settings"
        tab="Settings"
        below={
          <span>
            The sweeps and the brake are on{' '}
            <Link to="/supervision" style={{ textDecoration: 'underline' }}>
              Supervision
            </Link>
          </span>
        }
      />
      <div className={columns.stack}>
        {isAdmin(session) && <Tokens />}
        <Sessions />
        {mayOperate(session) && <Server />}
      </div>
    </>
  );
}

function Tokens() {
  const { sort, dialog } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: { sort?: string | undefined; dialog?: string | undefined }) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true, resetScroll: false });
  const { data: tokens, error } = useQuery(tokensQuery);
  const cache = useQueryClient();
  const session = useSession();
  const [action, setAction] = useState<Action | null>(null);
  return (
    <Panel
      title="Tokens"
      aside={
        <Button
          size="compact-md"
          leftSection={<IconPlus size={15} aria-hidden />}
          onClick={() => change({ dialog: 'token' })}
        >
          Create token
        </Button>
      }
      flush
    >
      {error && <FailurePanel error={error} />}
      {!tokens && !error && <TableSkeleton />}
      {tokens && (
        <TokenTable
          tokens={tokens}
          own={session.token_id}
          sort={sort}
          onSort={(next) => change({ sort: next })}
          onRevoke={(token) => setAction(revokeAction(token, cache))}
        />
      )}
      <TokenDialog opened={dialog === 'token'} onClose={() => change({ dialog: undefined })} />
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </Panel>
  );
}

function Sessions() {
  const { data: sessions, error } = useQuery(sessionsQuery);
  const cache = useQueryClient();
  const [action, setAction] = useState<Action | null>(null);
  return (
    <Panel title="Sessions" flush>
      {error && <FailurePanel error={error} />}
      {!sessions && !error && <TableSkeleton />}
      {sessions && (
        <SessionTable sessions={sessions} onRevoke={(session) => setAction(revokeSessionAction(session, cache))} />
      )}
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </Panel>
  );
}

function Server() {
  const { data, error } = useQuery(settingsQuery);
  const licences = useQuery(serverStatusQuery).data?.licences;
  const session = useSession();
  return (
    <>
      {error && <FailurePanel error={error} />}
      <Panel title="This server">
        {!data && !error && <TableSkeleton />}
        {data && (
          <Facts
            facts={[
              ['Version', data.version],
              ['Installation', session.installation_id],
              ['Node', `${data.node_version} on ${data.platform}`],
              ...(licences ? [licencesFact(licences)] : []),
              ...sourcedRows(data.started_with, data.sources),
            ]}
          />
        )}
      </Panel>
      {data && (
        <Panel title="Rule settings" aside={<Aside>{whereFrom(data.started_with.config)}</Aside>} flush>
          <DataTable
            label="Rule settings"
            columns={settingColumns}
            rows={settingRows(data.decides_by)}
            rowKey={([name]) => name}
            sort={undefined}
            onSort={() => {}}
          />
        </Panel>
      )}
    </>
  );
}

const Aside = ({ children }: { children: string }) => (
  <Text size="sm" c="dimmed">
    {children}
  </Text>
);

const settingColumns: Column<[string, string]>[] = [
  { key: 'name', heading: 'Setting', cell: ([name]) => <code>{name}</code> },
  { key: 'value', heading: 'Value', cell: ([, value]) => <span className="tabular">{value}</span> },
];
