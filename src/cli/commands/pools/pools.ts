/** `slipway pools`: lists the pools. */
import type { Pool } from '../../../contract/pool.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { formatAgeSince } from '../../render/text/duration.ts';
import type { Column } from '../../render/text/table.ts';
import { printListing } from '../../terminal/print-listing.ts';

const stateOf = (pool: Pool) => (pool.paused ? 'paused' : pool.mode === 'observe' ? 'observing' : 'open');

const poolColumns = (nowMs: number): Column<Pool>[] => [
  { title: 'POOL', value: (pool) => pool.name },
  { title: 'DRIVER', value: (pool) => pool.driver },
  { title: 'STATE', value: stateOf, tone: (pool) => (stateOf(pool) === 'open' ? 'good' : 'warn') },
  { title: 'LIVE', value: (pool) => String(pool.nodes.live), align: 'right' },
  { title: 'FREE', value: (pool) => String(pool.nodes.free), align: 'right' },
  { title: 'MAX', value: (pool) => String(pool.max_nodes ?? ''), align: 'right', optional: true },
  { title: 'GENERATION', value: (pool) => String(pool.generation), align: 'right', drop: 2 },
  { title: 'CHANGED', value: (pool) => formatAgeSince(pool.updated_at, nowMs), align: 'right', drop: 1 },
];

export const makePools: MakeCommand = (cli) =>
  new SlipwayCommand('pools').description('List the pools. With --json, print their whole documents.').action(
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
