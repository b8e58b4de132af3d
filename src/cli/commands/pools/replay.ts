/** `slipway replay`: judges recorded history by a proposed policy. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { replayLines } from '../../render/pools/replay.ts';
import { limitOption, type Since, sinceOption, toMoment } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { readProposedPools, readText } from './pool-documents.ts';

interface Options {
  policy: string;
  since?: Since;
  limit: number;
}

/** The server may replay a hundred thousand boots and as many facts, which takes long. */
const timeout_seconds = 300;

export const makeReplay: MakeCommand = (cli) =>
  new SlipwayCommand('replay')
    .description('Show what a proposed policy would have decided differently in recorded history. Changes nothing.')
    .requiredOption(
      '--policy <file>',
      'pool documents as for apply, or only the changed fields; a document without a name is for every pool; - reads standard input',
    )
    .addOption(sinceOption('; default 30 days'))
    .addOption(limitOption(25))
    .examples('slipway replay --policy pools.yaml', 'slipway replay --policy pools.yaml --since 7d --json')
    .action(
      cli.run<Options>(async (session, { policy: path, since: from, limit }) => {
        const policy = readProposedPools(readText(path), path);
        const since = toMoment(from, session.clock);
        const reply = await session.call(
          'policy-replay',
          { body: { policy, ...(since && { since }) } },
          { timeout_seconds },
        );
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, reply);
          return;
        }
        const canBeApplied =
          path !== '-' && policy.every(({ name, driver }) => name !== undefined && driver !== undefined);
        const context = { ...fitOf(out), limit, commandLine: session.commandLine, file: canBeApplied ? path : null };
        printLines(out, replayLines(reply, context));
        return undefined;
      }),
    );
