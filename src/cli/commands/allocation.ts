/** `slipway allocation`: all about one claim. */
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { allocationLines } from '../render/allocation.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

export const makeAllocation: MakeCommand = (cli) =>
  new SlipwayCommand('allocation')
    .description('Show one allocation: its status and why, its machine, its deadline.')
    .argument('<id>', 'the allocation')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const allocation = await session.call('allocation-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) printJson(out, allocation);
        else printLines(out, allocationLines(allocation, session.clock.nowMs(), fitOf(out)));
        return undefined;
      }),
    );
