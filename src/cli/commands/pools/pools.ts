/** `slipway pools`: which pools there are. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { poolColumns } from '../../render/pools/pool.ts';
import { printListing } from '../../terminal/print-listing.ts';

export const makePools: MakeCommand = (cli) =>
  new SlipwayCommand('pools').description('List the pools. With --json their whole documents.').action(
    cli.run(async (session) => {
      const { items, next_cursor } = await session.call('pool-list', {});
      printListing(
        session,
        { items, truncated: next_cursor !== null },
        {
          columns: poolColumns(session.clock.nowMs()),
          empty: `There are no pools. Declare one: ${session.commandLine('apply', '-f', 'pools.yaml')}`,
        },
      );
      return undefined;
    }),
  );
