/** `slipway brake`: shows what is held back, why and until when, and releases holds. */
import { randomUUID } from 'node:crypto';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { brakeLines } from '../../render/supervision/brake.ts';
import { renderContext } from '../../render/text/hints.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface ResumeOptions {
  reason: string;
  hold?: string;
}

const makeShow = (cli: Cli) =>
  new SlipwayCommand('brake show')
    .alias('list')
    .description('Show held verdicts, why and until when, maintenance windows, and gaps of the control plane.')
    .action(
      cli.run(async (session) => {
        const brake = await session.call('brake-get', {});
        if (session.json) printJson(session.terminal.out, brake);
        else printLines(session.terminal.out, brakeLines(brake, renderContext(session)));
        return undefined;
      }),
    );

const makeResume = (cli: Cli) =>
  new SlipwayCommand('brake resume')
    .description('Release held verdicts at once: those of one hold, or all. Maintenance windows stay open.')
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .option('--hold <id>', 'only this hold, from slipway brake')
    .examples('slipway brake resume --hold hold_… --reason "the rack is really gone"')
    .action(
      cli.run<ResumeOptions>(async (session, { reason, hold }) => {
        const brake = await session.call('brake-resume', {
          body: { reason, ...(hold !== undefined && { hold_id: hold }) },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, brake);
          return;
        }
        const result = hold === undefined ? 'The brake holds no verdicts now' : `${hold} is released`;
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', `${result}; the rules decide again within seconds`)}`,
        ]);
        return undefined;
      }),
    );

export const makeBrake: MakeCommand = (cli) =>
  new SlipwayCommand('brake')
    .description('Show what the brake holds back, and release it.')
    .addCommand(makeShow(cli), { isDefault: true })
    .addCommand(makeResume(cli));
