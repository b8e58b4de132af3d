/** `slipway tokens`: who may talk to the server. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import { tokenRoles } from '../../../contract/security/roles.ts';
import type { Token, TokenRole } from '../../../contract/security/token.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { tokenColumns } from '../../render/security/token.ts';
import { relative } from '../../render/text/duration.ts';
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
    .description('Make a token. It is shown once.')
    .requiredOption('-n, --name <name>', 'what it is for')
    .addOption(new Option('-r, --role <role>', 'what it may do').choices(tokenRoles).makeOptionMandatory())
    .option('--tenant <tenant>', 'only this tenant’s allocations; without it, everything')
    .option('--pool <pool>', 'of a relay: the pool whose beats it may pass on')
    .option('--ttl <time>', 'how long it holds: 12h, 30d; without it, until it is deleted', duration)
    .examples(
      'slipway tokens create --name ci --role operator --tenant team-a --ttl 30d > ci.token',
      'slipway tokens create --name rack-7 --role relay --pool metal > relay.token',
    )
    .action(
      cli.run<CreateOptions>(async (session, { name, role, tenant, pool, ttl }) => {
        const body = {
          name,
          role,
          // An empty value, as from an unset variable, is the server's to refuse: without a tenant the token sees everything.
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
        const end = token.expires_at ? `expires ${relative(token.expires_at, session.clock.nowMs())}` : 'never expires';
        // The secret alone goes to stdout, so that it can be sent into a file without ever being seen.
        printLines(err, [
          `${err.paint('good', '✔')} ${err.paint('strong', token.token_id)} ${token.name}: ${token.role}, ${scope}, ${end}`,
          `  Keep it now; it is not shown again. ${token.pool ? 'Give it to slipway relay' : 'Use it as SLIPWAY_TOKEN or'} with --token-file.`,
        ]);
        printLines(out, [token.token ?? '']);
        return undefined;
      }),
    );

function revokedLines(id: string, token: Token | undefined, { terminal, commandLine }: Session): string[] {
  const { paint } = terminal.out;
  const named = token ? `${id} ${printable(token.name)}` : id;
  const revoked = `${paint('good', '✔')} ${named} is revoked: whoever shows it is refused from now on`;
  if (!token?.pool) return [revoked];
  const another = commandLine('tokens', 'create', '--name', 'NAME', '--role', 'relay', '--pool', token.pool);
  return [
    revoked,
    `  Its relay passes on no more beats, and the machines behind it go offline unless it gets another: ${another}`,
  ];
}

const makeDelete = (cli: Cli) =>
  new SlipwayCommand('tokens delete')
    .alias('revoke')
    .description('Revoke a token; it stops working at once.')
    .argument('<id>', 'the token’s id, from the list')
    .action(
      cli.run(async (session, _, [id = '']) => {
        // Afterwards it is not listed any more, and what it was for is what matters then.
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
    .description('List, make and revoke tokens of people and programs.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeCreate(cli))
    .addCommand(makeDelete(cli));
