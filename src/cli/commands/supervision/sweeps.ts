/** `slipway sweeps`: whether the rules run, and what they did. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { sweepColumns } from '../../render/supervision/sweep.ts';
import { renderTable } from '../../render/text/table.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

export const makeSweeps: MakeCommand = (cli) =>
  new SlipwayCommand('sweeps')
    .description('List the rules at work on the replica that answers: last run, lateness, what each decided and held.')
    .action(
      cli.run(async (session) => {
        const runs = await session.call('sweep-list', {});
        const { out } = session.terminal;
        if (session.json) printJson(out, runs);
        else printLines(out, renderTable(sweepColumns(session.clock.nowMs()), runs.items, fitOf(out)));
        if (out.interactive && !session.json) printLines(out, ['', out.paint('quiet', `replica ${runs.replica_id}`)]);
        return undefined;
      }),
    );
