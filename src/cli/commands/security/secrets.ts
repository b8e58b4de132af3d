/**
 * `slipway secrets`: stores values for the environment of pools. Reads a value from a file, because
 * every user of the host can read a command line.
 */
import { randomUUID } from 'node:crypto';
import type { Secret } from '../../../contract/security/secret.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { formatAgeSince } from '../../render/text/duration.ts';
import type { Column } from '../../render/text/table.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { readText } from '../pools/pool-documents.ts';

const secretColumns = (nowMs: number): Column<Secret>[] => [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'VERSION', value: ({ version }) => String(version) },
  { title: 'KEY', value: ({ kid, readable }) => (readable ? kid : `${kid} (not in the key file)`) },
  { title: 'UPDATED', value: ({ updated_at }) => formatAgeSince(updated_at, nowMs) },
  { title: 'USED', value: ({ last_used_at }) => (last_used_at ? formatAgeSince(last_used_at, nowMs) : 'never') },
  { title: 'POOLS', value: ({ used_by }) => used_by.join(', ') },
];

const makeList = (cli: Cli) =>
  new SlipwayCommand('secrets list').description('List the secrets by name. Never shows a value.').action(
    cli.run(async (session) => {
      const { items } = await session.call('secret-list', {});
      printListing(
        session,
        { items, truncated: false },
        { columns: secretColumns(session.clock.nowMs()), empty: 'There are no secrets.' },
      );
      return undefined;
    }),
  );

/** The final line break of a file or a pipe is not part of the value. */
const stripLineBreak = (text: string): string => text.replace(/\r?\n$/, '');

const makeSet = (cli: Cli) =>
  new SlipwayCommand('secrets set')
    .description('Store a secret, or replace its value. Reads the value from standard input or a file.')
    .argument('<name>', 'the name that pools use: {secret: NAME}')
    .option('-f, --file <file>', 'a file with the value; - reads standard input', '-')
    .examples('slipway secrets set db-password < password.txt', 'slipway secrets set tls-key --file key.pem')
    .action(
      cli.run<{ file: string }>(async (session, { file }, [name = '']) => {
        const value = stripLineBreak(readText(file));
        if (value === '')
          throw new CliFailure('usage', 'The value is empty', {
            remedy: 'Write the value to standard input, or name a file with --file. Nothing was sent.',
          });
        const secret = await session.call('secret-put', {
          params: { name },
          body: { value },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) printJson(out, secret);
        else
          printLines(out, [
            `${out.paint('good', '✔')} secret ${out.paint('strong', name)} is stored (version ${secret.version})`,
            '  Running machines keep the value they were launched with.',
          ]);
        return undefined;
      }),
    );

const makeDelete = (cli: Cli) =>
  new SlipwayCommand('secrets delete')
    .description('Delete a secret. The server refuses while a pool names it.')
    .argument('<name>', 'the secret, from the list')
    .option('--force', 'delete it even if pools name it; their launches then fail')
    .action(
      cli.run<{ force?: boolean }>(async (session, { force }, [name = '']) => {
        await session.call('secret-delete', {
          params: { name },
          query: force ? { force } : {},
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) printJson(out, { name, deleted: true });
        else printLines(out, [`${out.paint('good', '✔')} secret ${name} is deleted`]);
        return undefined;
      }),
    );

const makeRotate = (cli: Cli) =>
  new SlipwayCommand('secrets rotate')
    .description('Encrypt every secret again with the current key. Add a key first: slipway keys rotate.')
    .action(
      cli.run(async (session) => {
        const rotation = await session.call('secret-rotate', { idempotency_key: randomUUID() });
        const { out } = session.terminal;
        if (session.json) printJson(out, rotation);
        else
          printLines(out, [
            `${out.paint('good', '✔')} ${rotation.rotated} secrets are encrypted with ${rotation.kid}`,
            ...(rotation.unreadable.length > 0
              ? [`  Not rotated, because their key is not in this server’s key file: ${rotation.unreadable.join(', ')}`]
              : []),
          ]);
        return undefined;
      }),
    );

export const makeSecrets: MakeCommand = (cli) =>
  new SlipwayCommand('secrets')
    .description('Store secrets that pools name in their environment. Values are never shown.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeSet(cli))
    .addCommand(makeDelete(cli))
    .addCommand(makeRotate(cli));
