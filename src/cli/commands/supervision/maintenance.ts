/** `slipway maintenance`: declares windows in which verdicts pause for the machines they cover. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import { moment as momentAt } from '../../../base/clock.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { coverage, maintenanceColumns } from '../../render/supervision/maintenance.ts';
import { formatMoment } from '../../render/text/duration.ts';
import { hintLines } from '../../render/text/hints.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { duration, labels, moment } from '../../terminal/option-values.ts';
import { printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface StartOptions {
  pool?: string;
  zone?: string;
  label?: Record<string, string>;
  from?: string;
  until?: string;
  for?: number;
  reason: string;
}

const makeList = (cli: Cli) =>
  new SlipwayCommand('maintenance list').description('List open and planned windows.').action(
    cli.run(async (session) => {
      const { items } = await session.call('maintenance-list', {});
      printListing(
        session,
        { items, truncated: false },
        {
          columns: maintenanceColumns(session.clock.nowMs()),
          empty: 'No maintenance window is open or planned.',
        },
      );
      return undefined;
    }),
  );

function endOf({ until, for: seconds, from }: StartOptions, nowMs: number): string {
  if (until !== undefined) return until;
  if (seconds === undefined)
    throw new CliFailure('usage', 'A maintenance window needs an end', {
      remedy: 'Add --for 2h, or --until 2026-01-31T14:00:00Z.',
    });
  return momentAt((from === undefined ? nowMs : Date.parse(from)) + seconds * 1000).toISOString();
}

function requireScope({ pool, zone, label }: StartOptions): void {
  if (pool !== undefined || zone !== undefined || label !== undefined) return;
  throw new CliFailure('usage', 'A maintenance window must name its machines', {
    why: 'A window over the whole fleet would hide every failure.',
    remedy: 'Name the machines with --pool, --zone or --label. A machine must match all of these.',
  });
}

const makeStart = (cli: Cli) =>
  new SlipwayCommand('maintenance start')
    .description('Pause verdicts for machines until a time. Replaces a window with the same name.')
    .argument('<name>', 'a name for the window')
    .option('-p, --pool <pool>', 'machines of this pool')
    .option('--zone <zone>', 'machines in this zone')
    .option('-l, --label <key=value>', 'machines with this label; may be repeated', labels)
    .option('--from <moment>', 'when the window begins; default now', moment)
    .addOption(
      new Option('--until <moment>', 'when the window ends, like 2026-01-31T14:00:00Z')
        .argParser(moment)
        .conflicts('for'),
    )
    .option('--for <time>', 'how long the window lasts, like 45m or 2h', duration)
    .requiredOption('-r, --reason <text>', 'why; shown with every held machine')
    .examples('slipway maintenance start switch-upgrade --zone eu-1 --for 2h --reason "new switch in rack 7"')
    .action(
      cli.run<StartOptions>(async (session, options, [name = '']) => {
        const { pool, zone, label, from, reason } = options;
        requireScope(options);
        const nowMs = session.clock.nowMs();
        const window = await session.call('maintenance-put', {
          params: { name },
          body: {
            ...(pool !== undefined && { pool }),
            ...(zone !== undefined && { zone }),
            ...(label && { labels: label }),
            ...(from !== undefined && { starts_at: from }),
            ends_at: endOf(options, nowMs),
            reason,
          },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, window);
          return;
        }
        const begins = from === undefined ? '' : ` from ${formatMoment(window.starts_at, nowMs)}`;
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', window.name)}: verdicts pause for ${coverage(window)}${begins} until ${formatMoment(window.ends_at, nowMs)}`,
          ...hintLines([['End it sooner', session.commandLine('maintenance', 'end', window.name)]], out.paint),
        ]);
        return undefined;
      }),
    );

const makeEnd = (cli: Cli) =>
  new SlipwayCommand('maintenance end')
    .description('End a maintenance window now. The rules decide again within seconds.')
    .argument('<name>', 'the window')
    .action(
      cli.run(async (session, _, [name = '']) => {
        await session.call('maintenance-delete', { params: { name }, idempotency_key: randomUUID() });
        const { out } = session.terminal;
        if (session.json) printJson(out, { name, ended: true });
        else printLines(out, [`${out.paint('good', '✔')} ${name} has ended; the rules decide again within seconds`]);
        return undefined;
      }),
    );

export const makeMaintenance: MakeCommand = (cli) =>
  new SlipwayCommand('maintenance')
    .description('Declare a maintenance window; verdicts pause for the machines it covers.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeStart(cli))
    .addCommand(makeEnd(cli));
