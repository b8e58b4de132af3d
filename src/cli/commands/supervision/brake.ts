/** `slipway brake`: what is held back, by what and until when; and the way to let it go on. */
import { randomUUID } from 'node:crypto';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { brakeLines } from '../../render/supervision/brake.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

interface ResumeOptions {
  reason: string;
  hold?: string;
}

const contextOf = (session: Session) => ({
  ...fitOf(session.terminal.out),
  nowMs: session.clock.nowMs(),
  commandLine: session.commandLine,
});

const makeShow = (cli: Cli) =>
  new SlipwayCommand('brake show')
    .description('Show what is held back, why and until when, maintenance, and when the control plane itself was away.')
    .action(
      cli.run(async (session) => {
        const brake = await session.call('brake-get', {});
        if (session.json) printJson(session.terminal.out, brake);
        else printLines(session.terminal.out, brakeLines(brake, contextOf(session)));
        return undefined;
      }),
    );

const makeResume = (cli: Cli) =>
  new SlipwayCommand('brake resume')
    .description('Let held verdicts go on at once: those of one hold, or all. Maintenance windows are not touched.')
    .requiredOption('-r, --reason <text>', 'why; kept as evidence under your name')
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
        const what = hold === undefined ? 'Nothing is held by the brake any more' : `${hold} is let go`;
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', `${what}; the rules decide again within seconds`)}`,
        ]);
        return undefined;
      }),
    );

export const makeBrake: MakeCommand = (cli) =>
  new SlipwayCommand('brake')
    .description('See what is held back and let it go on.')
    .addCommand(makeShow(cli), { isDefault: true })
    .addCommand(makeResume(cli));
