/** `slipway allocation`: all about one claim. */
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { openActionLines } from '../render/actions.ts';
import { allocationLines } from '../render/allocation.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

export const makeAllocation: MakeCommand = (cli) =>
  new SlipwayCommand('allocation')
    .description('Show one allocation: its status and why, its machine, its deadline, and what you can do about it.')
    .argument('<id>', 'the allocation')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const allocation = await session.call('allocation-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, allocation);
          return undefined;
        }
        const { items } = await session.call('allocation-actions', { params: { id } });
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        const open = openActionLines(id, items, context);
        printLines(out, [
          ...allocationLines(allocation, context.nowMs, context),
          ...(open.length > 0 ? ['', context.paint('strong', 'What you can do'), ...open] : []),
        ]);
        return undefined;
      }),
    );
