/** `slipway node`: all about one machine. */
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { whatToDo } from '../render/explanation.ts';
import { nodeLines } from '../render/node.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

export const makeNode: MakeCommand = (cli) =>
  new SlipwayCommand('node')
    .description('Show one node: its status and why, its deadline, what it and its provider say, and what you can do.')
    .argument('<id>', 'the node')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const node = await session.call('node-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, node);
          return undefined;
        }
        const told = await session.call('node-explain', { params: { id } });
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        const open = whatToDo(told, context);
        printLines(out, [
          ...nodeLines(node, told, context.nowMs, context),
          ...(open.length > 0 ? ['', context.paint('strong', 'What you can do'), ...open] : []),
        ]);
        return undefined;
      }),
    );
