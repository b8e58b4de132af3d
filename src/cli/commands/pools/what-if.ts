/** `slipway what-if`: tests another budget against the recorded boots. */
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { whatIfLines } from '../../render/pools/what-if.ts';
import { renderContext } from '../../render/text/hints.ts';
import {
  duration,
  type PhaseOption,
  phaseOption,
  type Since,
  sinceOption,
  toMoment,
} from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface Options extends PhaseOption {
  budget: number;
  since?: Since;
}

export const makeWhatIf: MakeCommand = (cli) =>
  new SlipwayCommand('what-if')
    .description(
      'Test another budget against recorded boots: shows which healthy boots would have failed and how much sooner stuck ones would have been found. Changes nothing.',
    )
    .argument('<pool>', 'the pool')
    .requiredOption('-b, --budget <time>', 'the budget to test: seconds, or a duration like 10m', duration)
    .addOption(phaseOption('the phase; default provision'))
    .addOption(sinceOption('; default all recorded boots'))
    .examples('slipway what-if gpu --budget 600', 'slipway what-if gpu --budget 90s --phase start --since 30d')
    .action(
      cli.run<Options>(async (session, { budget, phase, since }, [pool = '']) => {
        const start = toMoment(since, session.clock);
        const answer: WhatIf = await session.call('pool-what-if', {
          params: { pool },
          body: { budget_seconds: budget, ...(phase && { phase }), ...(start && { since: start }) },
        });
        const { out } = session.terminal;
        if (session.json) printJson(out, answer);
        else printLines(out, whatIfLines(answer, renderContext(session)));
        return undefined;
      }),
    );
