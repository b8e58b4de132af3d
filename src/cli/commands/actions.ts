/** `slipway actions`: what may be done about a machine now, what not, and why not. */
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { nodeBehind } from '../node-behind.ts';
import { actionLines } from '../render/actions.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

export const makeActions: MakeCommand = (cli) =>
  new SlipwayCommand('actions')
    .description('List what you can do about a node now, and why the rest is not open.')
    .argument('<id>', 'the node, or an allocation or operation on it')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const { node_id } = await nodeBehind(session, id, 'nothing can be done about one');
        const actions = await session.call('node-actions', { params: { id: node_id } });
        const { out } = session.terminal;
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        if (session.json) printJson(out, actions);
        else printLines(out, actionLines(node_id, actions.items, context));
        return undefined;
      }),
    );
