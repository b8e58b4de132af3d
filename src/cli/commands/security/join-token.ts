/** `slipway join-token`: creates a token by which machines join a pool. */
import { randomUUID } from 'node:crypto';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { relative } from '../../render/text/duration.ts';
import { count, duration } from '../../terminal/option-values.ts';
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
        const end = reply.expires_at ? `expires ${relative(reply.expires_at, session.clock.nowMs())}` : 'never expires';
        const uses = reply.max_uses === null ? 'any number of machines' : `at most ${reply.max_uses} machines`;
        printLines(err, [
          `${err.paint('good', '✔')} ${err.paint('strong', reply.token_id)} for pool ${reply.pool}: ${uses}, ${end}`,
          '  Save it now; it is not shown again. Give it to the agents that join the pool.',
        ]);
        printLines(out, [reply.token ?? '']);
        return undefined;
      }),
    );

export const makeJoinToken: MakeCommand = (cli) =>
  new SlipwayCommand('join-token').description('Let machines join a pool.').addCommand(makeCreate(cli));
