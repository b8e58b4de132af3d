/** `slipway boots`: shows how long the boots of a pool take, their budget, and why it changed. */
import type { PoolBoots } from '../../../contract/supervision/boots.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { bootsLines } from '../../render/pools/boots.ts';
import { renderContext } from '../../render/text/hints.ts';
import { type PhaseOption, phaseOption } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

export const makeBoots: MakeCommand = (cli) =>
  new SlipwayCommand('boots')
    .description('Show how long the boots of a pool take, their budget, and why it changed.')
    .argument('<pool>', 'the pool')
    .addOption(phaseOption('only this phase; without it, both'))
    .examples('slipway boots gpu', 'slipway boots gpu --phase start')
    .action(
      cli.run<PhaseOption>(async (session, { phase }, [pool = '']) => {
        const boots: PoolBoots = await session.call('pool-boots', { params: { pool } });
        const phases = boots.phases.filter((each) => phase === undefined || each.phase === phase);
        const { out } = session.terminal;
        if (session.json) printJson(out, { ...boots, phases });
        else printLines(out, bootsLines(boots, phases, { ...renderContext(session), drawsPlots: out.interactive }));
        return undefined;
      }),
    );
