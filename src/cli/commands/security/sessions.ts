/** `slipway sessions`: lists and ends console sessions. */
import { randomUUID } from 'node:crypto';
import type { ConsoleSession } from '../../../contract/security/token.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { formatAgeSince, formatRelative } from '../../render/text/duration.ts';
import type { Column } from '../../render/text/table.ts';
import { printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

const maxListed = 2_000;

const expiryOf = ({ expires_at, idle_expires_at }: ConsoleSession) =>
  Date.parse(idle_expires_at) < Date.parse(expires_at) ? idle_expires_at : expires_at;

const columns = (nowMs: number): Column<ConsoleSession>[] => [
  { title: 'SESSION', value: ({ session_id }) => session_id },
  { title: 'TOKEN', value: ({ name }) => name, shrinks_to: 8 },
  { title: 'ROLE', value: ({ role }) => role },
  { title: 'FROM', value: ({ address }) => address ?? '' },
  { title: 'LAST USE', value: ({ last_used_at }) => formatAgeSince(last_used_at, nowMs), align: 'right' },
  { title: 'ENDS', value: (session) => formatRelative(expiryOf(session), nowMs) },
  { title: 'BROWSER', value: ({ user_agent }) => user_agent ?? '', shrinks_to: 10, drop: 1 },
];

const makeList = (cli: Cli) =>
  new SlipwayCommand('sessions list')
    .description('List the sessions of the console: those of your token, or all if you are an admin.')
    .action(
      cli.run(async (session) => {
        const listing = await collect((query) => session.call('session-list', { query }), maxListed);
        printListing(session, listing, {
          columns: columns(session.clock.nowMs()),
          empty: 'There are no console sessions that you may see.',
        });
        return undefined;
      }),
    );

const makeRevoke = (cli: Cli) =>
  new SlipwayCommand('sessions revoke')
    .alias('delete')
    .description('End a session at once. Its token stays valid.')
    .argument('<id>', 'the session’s id, from the list')
    .examples('slipway sessions revoke sess_01hx4k6vqn2m3p4r5s6t')
    .action(
      cli.run(async (session, _, [id = '']) => {
        await session.call('session-revoke', { params: { id }, idempotency_key: randomUUID() });
        const { out } = session.terminal;
        if (session.json) printJson(out, { session_id: id, deleted: true });
        else printLines(out, [`${out.paint('good', '✔')} ${id} has ended`]);
        return undefined;
      }),
    );

export const makeSessions: MakeCommand = (cli) =>
  new SlipwayCommand('sessions')
    .description('List and end sessions of the console.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeRevoke(cli));
