/** `slipway act`: does something about a machine, with a reason that is kept. */
import { randomUUID } from 'node:crypto';
import { Argument, Option } from 'commander';
import { type NodeActionName, nodeActionNames } from '../../lifecycle/actions.ts';
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { nodeBehind } from '../node-behind.ts';
import { duration } from '../option-values.ts';
import { actedLines } from '../render/actions.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

interface Options {
  reason: string;
  seconds?: number;
  then?: 'hold' | 'retire';
  dryRun?: boolean;
}

export const makeAct: MakeCommand = (cli) =>
  new SlipwayCommand('act')
    .description('Do something about a node. It is refused where it is not open; slipway actions says what is.')
    .argument('<id>', 'the node, or an allocation or operation on it')
    .addArgument(new Argument('<action>', 'what to do').choices(nodeActionNames))
    .requiredOption('-r, --reason <text>', 'why; kept as evidence under your name')
    .option('--seconds <time>', 'extend-deadline: by how much, like 600 or 10m', duration)
    .addOption(new Option('--then <end>', 'drain: what becomes of it once it is empty').choices(['hold', 'retire']))
    .option('--dry-run', 'only say what would come of it')
    .examples(
      'slipway act node_… extend-deadline --seconds 10m --reason "the image is large today"',
      'slipway act node_… drain --then retire --reason "the host is replaced"',
      'slipway act node_… apply-held-verdict --reason "it burned down" --dry-run',
    )
    .action(
      cli.run<Options>(async (session, { reason, seconds, then, dryRun }, [id = '', action = '']) => {
        const { node_id } = await nodeBehind(session, id, 'nothing can be done about one');
        const acted = await session.call('node-act', {
          params: { id: node_id, action: action as NodeActionName },
          body: {
            reason,
            ...(dryRun && { dry_run: true }),
            ...(seconds !== undefined && { seconds }),
            ...(then && { drain_then: then }),
          },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        if (session.json) printJson(out, acted);
        else printLines(out, actedLines(action, acted, context));
        return undefined;
      }),
    );
