/** `slipway tokens`: lists, creates and revokes the tokens of people and programs. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import { tokenRoles } from '../../../contract/security/roles.ts';
import type { Token, TokenRole } from '../../../contract/security/token.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { formatAgeSince, formatRelative } from '../../render/text/duration.ts';
import type { Column } from '../../render/text/table.ts';
import { printable } from '../../render/text/text.ts';
import { duration } from '../../terminal/option-values.ts';
import { printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface CreateOptions {
  name: string;
  role: TokenRole;
  tenant?: string;
  pool?: string;
  ttl?: number;
}

const scopeOf = ({ tenant, pool }: Token) => (pool ? `pool ${pool}` : tenant ? `tenant ${tenant}` : 'all tenants');

const tokenColumns = (nowMs: number): Column<Token>[] => [
  { title: 'TOKEN', value: (token) => token.token_id },
  { title: 'NAME', value: (token) => token.name, shrinks_to: 10 },
  { title: 'ROLE', value: (token) => token.role },
  { title: 'TENANT', value: ({ tenant, pool }) => (pool ? `pool ${pool}` : (tenant ?? '(all)')), shrinks_to: 8 },
  { title: 'LAST USED', value: (token) => (token.last_used_at ? formatRelative(token.last_used_at, nowMs) : 'never') },
  {
    title: 'EXPIRES',
    value: (token) => (token.expires_at ? formatRelative(token.expires_at, nowMs) : 'never'),
    tone: (token) => (token.expires_at && Date.parse(token.expires_at) < nowMs ? 'bad' : undefined),
  },
  { title: 'AGE', value: (token) => formatAgeSince(token.created_at, nowMs), align: 'right', drop: 1 },
];

const makeList = (cli: Cli) =>
  new SlipwayCommand('tokens list').description('List the tokens, without their secrets.').action(
    cli.run(async (session) => {
      const { items, next_cursor } = await session.call('token-list', {});
      printListing(
        session,
        { items, truncated: next_cursor !== null },
        { columns: tokenColumns(session.clock.nowMs()), empty: 'There are no tokens.' },
      );
      return undefined;
    }),
  );

const makeCreate = (cli: Cli) =>
  new SlipwayCommand('tokens create')
    .description('Create a token. The token is shown once.')
    .requiredOption('-n, --name <name>', 'what the token is for')
    .addOption(new Option('-r, --role <role>', 'what the token may do').choices(tokenRoles).makeOptionMandatory())
    .option('--tenant <tenant>', 'limit the token to the allocations of this tenant; default everything')
    .option('--pool <pool>', 'for the role relay: the pool whose heartbeats the relay may forward')
    .option('--ttl <time>', 'how long the token is valid: 12h, 30d; default until you delete it', duration)
    .examples(
      'slipway tokens create --name ci --role operator --tenant team-a --ttl 30d > ci.token',
      'slipway tokens create --name rack-7 --role relay --pool metal > relay.token',
    )
    .action(
      cli.run<CreateOptions>(async (session, { name, role, tenant, pool, ttl }) => {
        const body = {
          name,
          role,
          // Sends an empty tenant too, for example from an unset variable, so that the server
          // refuses it. Without a tenant the token would see everything.
          ...(tenant !== undefined && { tenant }),
          ...(pool !== undefined && { pool }),
          ...(ttl !== undefined && { ttl_seconds: ttl }),
        };
        const token = await session.call('token-create', { body, idempotency_key: randomUUID() });
        const { out, err } = session.terminal;
        if (session.json) {
          printJson(out, token);
          return;
        }
        const scope = scopeOf(token);
        const end = token.expires_at
          ? `expires ${formatRelative(token.expires_at, session.clock.nowMs())}`
          : 'never expires';
        // Only the secret goes to stdout, so that a redirect writes nothing else to the file.
        printLines(err, [
          `${err.paint('good', '✔')} ${err.paint('strong', token.token_id)} ${token.name}: ${token.role}, ${scope}, ${end}`,
          `  Save it now; it is not shown again. ${token.pool ? 'Give it to slipway relay' : 'Use it as SLIPWAY_TOKEN or'} with --token-file.`,
        ]);
        printLines(out, [token.token ?? '']);
        return undefined;
      }),
    );

function revokedLines(id: string, token: Token | undefined, { terminal, commandLine }: Session): string[] {
  const { paint } = terminal.out;
  const label = token ? `${id} ${printable(token.name)}` : id;
  const revoked = `${paint('good', '✔')} ${label} is revoked and refused from now on`;
  if (!token?.pool) return [revoked];
  const createCommand = commandLine('tokens', 'create', '--name', 'NAME', '--role', 'relay', '--pool', token.pool);
  return [
    revoked,
    `  Its relay can no longer forward heartbeats, so the machines behind it go offline. Create another: ${createCommand}`,
  ];
}

const makeDelete = (cli: Cli) =>
  new SlipwayCommand('tokens delete')
    .alias('revoke')
    .description('Revoke a token. It stops working at once.')
    .argument('<id>', 'the token’s id, from the list')
    .action(
      cli.run(async (session, _, [id = '']) => {
        // Reads the name and pool of the token first: a revoked token is no longer listed.
        const { items } = await session.call('token-list', {});
        await session.call('token-delete', { params: { id }, idempotency_key: randomUUID() });
        const { out } = session.terminal;
        if (session.json) printJson(out, { token_id: id, deleted: true });
        else
          printLines(
            out,
            revokedLines(
              id,
              items.find(({ token_id }) => token_id === id),
              session,
            ),
          );
        return undefined;
      }),
    );

export const makeTokens: MakeCommand = (cli) =>
  new SlipwayCommand('tokens')
    .description('List, create and revoke the tokens of people and programs.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeCreate(cli))
    .addCommand(makeDelete(cli));
