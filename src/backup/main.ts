/** The entry point of `slipway backup`, `slipway restore` and `slipway move-database`. */
import { existsSync } from 'node:fs';
import { systemClock } from '../base/clock.ts';
import { openKeyRing } from '../base/credentials/key-ring.ts';
import { withoutPassword } from '../base/network/database-url.ts';
import { printableText } from '../base/redaction/printable.ts';
import { SettingsError } from '../base/settings/flag-values.ts';
import { BackupRefused } from '../store/backup/refusal.ts';
import { markMoved } from '../store/pg/embedded/embedded.ts';
import { openSource, openStopped } from './database-place.ts';
import { describeFailure } from './failure.ts';
import { type BackupOptions, readOptions } from './options.ts';
import { openKeyFile, verifyBackup } from './read-backup.ts';
import { moveDatabase, restoreBackup } from './restore.ts';
import { openStorage } from './storage/open-place.ts';
import { takeBackup } from './take-backup.ts';

const exitCodes = { usage: 2, refused: 4, failed: 1, interrupted: 130 };

/** Writes text for people. Standard output has only the result. */
const say = (line: string): void => void process.stderr.write(`${printableText(line)}\n`);

function print(json: boolean, document: object, lines: string[]): void {
  process.stdout.write(json ? `${JSON.stringify(document)}\n` : `${lines.map(printableText).join('\n')}\n`);
}

const exit = () => process.exit(exitCodes.interrupted);

/** Ends the program early. An upload is aborted first; a second signal does not wait for that. */
let endEarly: () => void = exit;

const total = (tables: Record<string, number>): number => Object.values(tables).reduce((a, b) => a + b, 0);

async function backUp(options: BackupOptions & { command: 'backup' }): Promise<void> {
  const source = await openSource(options.from, say);
  try {
    const isNew = !existsSync(options.key_file);
    // Creates a key only in a file that the user named. Otherwise a missing key file is an error,
    // because the backup would not be encrypted with the key of the server.
    if (isNew && !options.may_create_key) openKeyFile(options.key_file);
    const key_ring = openKeyRing(options.key_file, systemClock);
    if (isNew) say(`Created the key file ${options.key_file}. Keep a copy of it away from this host.`);
    const interruption = new AbortController();
    endEarly = () => {
      endEarly = exit;
      interruption.abort();
    };
    const { to, s3_endpoint, keep } = options;
    const { signal } = interruption;
    const taken = await takeBackup({ url: source.url, to, s3_endpoint, keep, key_ring, signal }).catch((error) => {
      if (signal.aborted) return exit();
      throw error;
    });
    endEarly = exit;
    print(options.json, taken, [
      `${taken.file}: ${taken.rows} rows of ${taken.tables} tables, ${taken.bytes} bytes, as of ${taken.taken_at}`,
      ...taken.deleted.map((path) => `deleted ${path}`),
      `Not in it: the key file ${options.key_file}, which opens it (${taken.kid}), TLS files, the settings file, and directories of local nodes.`,
    ]);
  } finally {
    await source.close();
  }
}

async function verify(options: BackupOptions & { command: 'verify' }): Promise<void> {
  const { file, s3_endpoint } = options;
  const { header, tables, rows } = await verifyBackup(file, openKeyFile(options.key_file), s3_endpoint);
  print(options.json, { header, tables, rows }, [
    `${file} is whole: ${rows} rows of ${Object.keys(tables).length} tables`,
    `${header.backup_id} of ${header.installation_id}, taken ${header.taken_at} by Slipway ${header.slipway_version}`,
  ]);
}

async function list(options: BackupOptions & { command: 'list' }): Promise<void> {
  const storage = await openStorage(options.place, options.s3_endpoint);
  const backups = (await storage.list()).map(storage.pathOf);
  print(options.json, { backups }, backups.length > 0 ? backups : [`No backups in ${options.place}`]);
}

async function restore(options: BackupOptions & { command: 'restore' }): Promise<void> {
  const { file, s3_endpoint, into } = options;
  const keys = openKeyFile(options.key_file);
  const { header, rows } = await restoreBackup({ file, s3_endpoint, into, keys, log: say });
  const where = into.url === null ? into.data_dir : withoutPassword(into.url);
  print(options.json, { header, rows }, [
    `${rows} rows of ${header.installation_id}, as of ${header.taken_at}, are in ${where}`,
    `Start the server on it with the key file ${options.key_file}, or copy that file to keys.json in its data directory.`,
  ]);
}

async function move(options: BackupOptions & { command: 'move-database' }): Promise<void> {
  const source = await openStopped(options.from, say);
  try {
    const rows = total(await moveDatabase(source.url, options.to));
    await markMoved(options.from, withoutPassword(options.to));
    print(options.json, { rows }, [
      `${rows} rows are in ${withoutPassword(options.to)}`,
      `Start the server with --database-url, the same --data-dir ${options.from}, and --nodes-dir ${options.from}/nodes if it has local nodes.`,
      'The embedded database stays as it is, and no server starts on it any more.',
    ]);
  } finally {
    await source.close();
  }
}

async function run(): Promise<void> {
  const options = readOptions(process.argv.slice(2), process.env);
  if (options.command === 'help') process.stdout.write(options.usage);
  else if (options.command === 'backup') await backUp(options);
  else if (options.command === 'verify') await verify(options);
  else if (options.command === 'list') await list(options);
  else if (options.command === 'restore') await restore(options);
  else await move(options);
}

// Exit handlers stop an embedded database that this program started, and remove a backup's draft.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => endEarly());

run().catch((error: unknown) => {
  const failure = describeFailure(error);
  if (process.argv.includes('--json')) process.stderr.write(`${JSON.stringify({ error: failure })}\n`);
  else
    say(
      [`✖ ${failure.title}`, failure.detail, failure.remedy && `What to do: ${failure.remedy}`]
        .filter(Boolean)
        .join('\n  '),
    );
  process.exitCode =
    error instanceof SettingsError
      ? exitCodes.usage
      : error instanceof BackupRefused
        ? exitCodes.refused
        : exitCodes.failed;
});
