/** `slipway keys`: manages the key file of a server on this host, and the key that signs tasks. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { type RingKey, readKeyFile, rotateKeyRing, signingKeyOf } from '../../../base/credentials/key-ring.ts';
import { SettingsError } from '../../../base/settings/flag-values.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface KeyOptions {
  keyFile?: string;
  dataDir?: string;
  json?: boolean;
}

const keyFileOf = ({ keyFile, dataDir }: KeyOptions): string => keyFile ?? join(dataDir ?? '.slipway', 'keys.json');

/** Runs `work` on the key file, and explains a file that is missing or unusable. */
function runOnKeyFile<T>(path: string, work: (path: string) => T): T {
  try {
    return work(path);
  } catch (error) {
    if (error instanceof SettingsError) throw new CliFailure('failed', error.message, { cause: error });
    throw new CliFailure('usage', `Cannot use the key file ${path}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Run this on the server’s host, and name the file with --key-file or its directory with --data-dir.',
      cause: error,
    });
  }
}

const addKeyFileOption = (command: SlipwayCommand) =>
  command.addOption(
    new Option('--key-file <file>', 'the key file; by default keys.json in the data directory').env('SLIPWAY_KEY_FILE'),
  );

const makeList = (cli: Cli) =>
  addKeyFileOption(new SlipwayCommand('keys list'))
    .description('List the ids and ages of the keys, newest first. Never shows a key.')
    .action((_: unknown, command: Command) => {
      const options = command.optsWithGlobals<KeyOptions>();
      const keys = runOnKeyFile(keyFileOf(options), readKeyFile).map(({ kid, created_at }) => ({ kid, created_at }));
      const { out } = cli.terminal;
      if (options.json) printJson(out, { items: keys });
      else
        printLines(
          out,
          keys.map(({ kid, created_at }, i) => `${kid}  created ${created_at}${i === 0 ? '  current' : ''}`),
        );
    });

const makeRotate = (cli: Cli) =>
  addKeyFileOption(new SlipwayCommand('keys rotate'))
    .description(
      'Add a key and make it the current one. Running servers pick it up. Older keys stay, to decrypt and verify older data.',
    )
    .examples('slipway keys rotate --data-dir /var/lib/slipway')
    .action((_: unknown, command: Command) => {
      const options = command.optsWithGlobals<KeyOptions>();
      const path = keyFileOf(options);
      const kid = runOnKeyFile(path, (file) => rotateKeyRing(file, systemClock));
      const { out } = cli.terminal;
      if (options.json) printJson(out, { kid });
      else
        printLines(out, [
          `${out.paint('good', '✔')} ${kid} is the current key`,
          `  Copy ${path} to the other replicas and back it up: without it, stored secrets cannot be read.`,
        ]);
    });

const makeRotateTasks = (cli: Cli) =>
  new SlipwayCommand('keys rotate-tasks')
    .description(
      'Announce the next key that signs tasks for agents. The key starts to sign when every agent has had time to learn it.',
    )
    .action(
      cli.run(async (session) => {
        const rotated = await session.call('task-key-rotate', { idempotency_key: randomUUID() });
        const { out } = session.terminal;
        if (session.json) printJson(out, rotated);
        else
          printLines(out, [
            `${out.paint('good', '✔')} ${rotated.kid} is announced and signs tasks from ${rotated.signs_from}`,
            `  Agents accept ${rotated.former_kid} until ${rotated.former_accepted_until}.`,
          ]);
        return undefined;
      }),
    );

const publicKeyOf = (key: RingKey) => signingKeyOf(key, 'evidence').public_key;

const makePublic = (cli: Cli) =>
  addKeyFileOption(new SlipwayCommand('keys public'))
    .description(
      'Print the public keys that verify evidence and certificates. Keep them where the server cannot reach.',
    )
    .examples('slipway keys public > slipway.pem', 'slipway verify-store --public-key slipway.pem')
    .action((_: unknown, command: Command) => {
      const options = command.optsWithGlobals<KeyOptions>();
      const keys = runOnKeyFile(keyFileOf(options), readKeyFile);
      const { out } = cli.terminal;
      if (options.json)
        printJson(out, {
          keys: keys.map((key) => ({
            kid: key.kid,
            public_key: publicKeyOf(key).export({ type: 'spki', format: 'der' }).toString('base64'),
          })),
        });
      else
        for (const key of keys)
          out.write(`# ${key.kid}\n${publicKeyOf(key).export({ type: 'spki', format: 'pem' }).toString()}`);
    });

export const makeKeys: MakeCommand = (cli) =>
  new SlipwayCommand('keys')
    .description(
      'List, rotate and publish the keys of a server. Run it on the server’s host; rotate-tasks works from anywhere.',
    )
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeRotate(cli))
    .addCommand(makeRotateTasks(cli))
    .addCommand(makePublic(cli));
