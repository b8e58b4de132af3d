/** `slipway join-token`: creates, lists and revokes the tokens by which machines join a pool. */
import { randomUUID } from 'node:crypto';
import type { JoinToken } from '../../../contract/pool.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { formatAgeSince, formatRelative } from '../../render/text/duration.ts';
import type { Column } from '../../render/text/table.ts';
import { count, duration } from '../../terminal/option-values.ts';
import { printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface Options {
  ttl?: number;
  maxUses?: number;
  neverExpires?: boolean;
}

const makeCreate = (cli: Cli) =>
  new SlipwayCommand('join-token create')
    .description('Create a join token. The token is shown once.')
    .argument('<pool>', 'the pool that agents may join with the token')
    .option('--ttl <time>', 'how long the token is valid: 12h, 7d', duration)
    .option('--never-expires', 'keep the token valid until it is revoked; for machines that send heartbeats with it')
    .option('--max-uses <n>', 'how many machines may join with the token', count)
    .examples('slipway join-token create fleet --ttl 7d --max-uses 50')
    .action(
      cli.run<Options>(async (session, { ttl, maxUses, neverExpires }, [pool = '']) => {
        const reply = await session.call('join-token-create', {
          params: { pool },
          body: {
            ...(ttl !== undefined && { ttl_seconds: ttl }),
            ...(neverExpires && { no_expiry: true as const }),
            ...(maxUses !== undefined && { max_uses: maxUses }),
          },
          idempotency_key: randomUUID(),
        });
        const { out, err } = session.terminal;
        if (session.json) {
          printJson(out, reply);
          return;
        }
        const end = reply.expires_at
          ? `expires ${formatRelative(reply.expires_at, session.clock.nowMs())}`
          : 'never expires';
        const uses = reply.max_uses === null ? 'any number of machines' : `at most ${reply.max_uses} machines`;
        printLines(err, [
          `${err.paint('good', '✔')} ${err.paint('strong', reply.token_id)} for pool ${reply.pool}: ${uses}, ${end}`,
          '  Save it now; it is not shown again. Give it to the agents that join the pool.',
        ]);
        printLines(out, [reply.token ?? '']);
        return undefined;
      }),
    );

const isUnusable = ({ expires_at, uses, max_uses }: JoinToken, nowMs: number) =>
  (expires_at !== null && Date.parse(expires_at) < nowMs) || (max_uses !== null && uses >= max_uses);

const joinTokenColumns = (nowMs: number): Column<JoinToken>[] => [
  { title: 'TOKEN', value: (token) => token.token_id },
  {
    title: 'JOINED',
    value: ({ uses, max_uses }) => (max_uses === null ? `${uses}` : `${uses} of ${max_uses}`),
    align: 'right',
  },
  {
    title: 'EXPIRES',
    value: ({ expires_at }) => (expires_at ? formatRelative(expires_at, nowMs) : 'never'),
    tone: (token) => (isUnusable(token, nowMs) ? 'bad' : undefined),
  },
  { title: 'AGE', value: (token) => formatAgeSince(token.created_at, nowMs), align: 'right', drop: 1 },
];

const makeList = (cli: Cli) =>
  new SlipwayCommand('join-token list')
    .description('List the join tokens of a pool, without their secrets.')
    .argument('<pool>', 'the pool that agents may join with the tokens')
    .action(
      cli.run(async (session, _, [pool = '']) => {
        const { items, next_cursor } = await session.call('join-token-list', { params: { pool } });
        printListing(
          session,
          { items, truncated: next_cursor !== null },
          { columns: joinTokenColumns(session.clock.nowMs()), empty: `Pool ${pool} has no join tokens.` },
        );
        return undefined;
      }),
    );

const makeRevoke = (cli: Cli) =>
  new SlipwayCommand('join-token revoke')
    .alias('delete')
    .description('Revoke a join token. No machine can join with it any more; those that joined stay.')
    .argument('<pool>', 'the pool of the token')
    .argument('<token>', 'the id of the token, from the list')
    .examples('slipway join-token revoke fleet join_01jcx9…')
    .action(
      cli.run(async (session, _, [pool = '', id = '']) => {
        await session.call('join-token-delete', { params: { pool, id }, idempotency_key: randomUUID() });
        const { out } = session.terminal;
        if (session.json) printJson(out, { token_id: id, deleted: true });
        else printLines(out, [`${out.paint('good', '✔')} ${id} is revoked: no machine can join pool ${pool} with it`]);
        return undefined;
      }),
    );

export const makeJoinToken: MakeCommand = (cli) =>
  new SlipwayCommand('join-token')
    .description('Let machines join a pool.')
    .addCommand(makeCreate(cli))
    .addCommand(makeList(cli))
    .addCommand(makeRevoke(cli));
