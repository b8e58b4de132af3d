/** `slipway operation`: shows one operation with its steps. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { operationLines } from '../../render/allocations/operation.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

export const makeOperation: MakeCommand = (cli) =>
  new SlipwayCommand('operation')
    .description('Show one operation with its steps, how long each took and how long it usually takes.')
    .argument('<id>', 'the operation')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const operation = await session.call('operation-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) printJson(out, operation);
        else printLines(out, operationLines(operation, session.clock.nowMs(), fitOf(out)));
        return undefined;
      }),
    );
