/** `slipway node`: all about one machine. */
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { nodeLines } from '../render/node.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

export const makeNode: MakeCommand = (cli) =>
  new SlipwayCommand('node')
    .description('Show one node: its status and why, its deadline, what it and its provider say.')
    .argument('<id>', 'the node')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const node = await session.call('node-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) printJson(out, node);
        else printLines(out, nodeLines(node, session.clock.nowMs(), fitOf(out)));
        return undefined;
      }),
    );
