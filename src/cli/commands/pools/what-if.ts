/** `slipway what-if`: what another budget would have done to the boots on record. It changes nothing. */
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { whatIfLines } from '../../render/pools/what-if.ts';
import {
  duration,
  type PhaseOption,
  phaseOption,
  type Since,
  sinceOption,
  startOf,
} from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

interface Options extends PhaseOption {
  budget: number;
  since?: Since;
}

export const makeWhatIf: MakeCommand = (cli) =>
  new SlipwayCommand('what-if')
    .description(
      'Ask what another budget would have done: which boots it would have given up although they arrived, and how much sooner stuck ones would have been found. Nothing is changed.',
    )
    .argument('<pool>', 'the pool')
    .requiredOption('-b, --budget <time>', 'the budget to ask about, like 600 or 10m', duration)
    .addOption(phaseOption('of this phase; without it, provision'))
    .addOption(sinceOption('; without it, all on record'))
    .examples('slipway what-if gpu --budget 600', 'slipway what-if gpu --budget 90s --phase start --since 30d')
    .action(
      cli.run<Options>(async (session, { budget, phase, since }, [pool = '']) => {
        const start = startOf(since, session.clock);
        const answer: WhatIf = await session.call('pool-what-if', {
          params: { pool },
          body: { budget_seconds: budget, ...(phase && { phase }), ...(start && { since: start }) },
        });
        const { out } = session.terminal;
        if (session.json) printJson(out, answer);
        else
          printLines(
            out,
            whatIfLines(answer, { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine }),
          );
        return undefined;
      }),
    );
