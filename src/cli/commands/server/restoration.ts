/** `slipway restoration`: shows what differs after a restore, and lets the servers act again. */
import { randomUUID } from 'node:crypto';
import type { RestorationState } from '../../../contract/supervision/restoration.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { restorationColumns, restorationLines } from '../../render/supervision/restoration.ts';
import { renderContext } from '../../render/text/hints.ts';
import { formatCount } from '../../render/text/text.ts';
import { limitOption } from '../../terminal/option-values.ts';
import { printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

const makeShow = (cli: Cli) =>
  new SlipwayCommand('restoration show')
    .description('Show whether the servers only observe after a restore, and how many machines differ.')
    .action(
      cli.run(async (session) => {
        const state: RestorationState = await session.call('restoration-get', {});
        if (session.json) printJson(session.terminal.out, state);
        else printLines(session.terminal.out, restorationLines(state, renderContext(session)));
        return undefined;
      }),
    );

const makeList = (cli: Cli) =>
  new SlipwayCommand('restoration list')
    .description('List the machines that differ from the restored rows.')
    .addOption(limitOption(100))
    .action(
      cli.run<{ limit: number }>(async (session, { limit }) => {
        const differences = await collect(
          (paging) => session.call('restoration-differences', { query: paging }),
          limit,
        );
        printListing(session, differences, {
          columns: restorationColumns,
          empty: 'No machine differs from its row.',
          summary: (rows) => formatCount(rows.length, 'machine'),
          has_limit: true,
        });
        return undefined;
      }),
    );

interface EndOptions {
  reason: string;
  trustFree?: boolean;
  trustUnconfirmed?: boolean;
  force?: boolean;
}

const makeEnd = (cli: Cli) =>
  new SlipwayCommand('restoration end')
    .description('Let the servers act again. Nodes that an unknown tenant may use are quarantined first.')
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .option('--trust-free', 'do not quarantine free machines: nothing was allocated after the backup')
    .option('--trust-unconfirmed', 'do not quarantine machines that cannot be asked: none has changed hands')
    .option('--force', 'end it although not every machine could be inspected')
    .examples('slipway restoration end --reason "compared; 3 machines changed hands"')
    .action(
      cli.run<EndOptions>(async (session, { reason, trustFree, trustUnconfirmed, force }) => {
        const ended = await session.call('restoration-end', {
          body: {
            reason,
            ...(trustFree && { trust_free: true }),
            ...(trustUnconfirmed && { trust_unconfirmed: true }),
            ...(force && { force: true }),
          },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, ended);
          return undefined;
        }
        const quarantined =
          ended.quarantined === 0
            ? 'no node was quarantined'
            : `${formatCount(ended.quarantined, 'node')} quarantined: slipway nodes --status quarantined`;
        printLines(out, [`${out.paint('good', '✔')} ${out.paint('strong', 'The servers act again')}; ${quarantined}`]);
        return undefined;
      }),
    );

export const makeRestoration: MakeCommand = (cli) =>
  new SlipwayCommand('restoration')
    .description('Show what differs after a restore, and let the servers act again.')
    .addCommand(makeShow(cli), { isDefault: true })
    .addCommand(makeList(cli))
    .addCommand(makeEnd(cli));
