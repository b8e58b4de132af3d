/** Reads the command lines of `slipway backup`, `restore` and `move-database`. */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { databaseUrlFrom, SettingsError } from '../base/settings/flag-values.ts';

/** A database by its URL, or the embedded one of a data directory. */
export interface DatabasePlace {
  url: string | null;
  data_dir: string;
}

interface Shared {
  json: boolean;
}

export type BackupOptions =
  | (Shared & {
      command: 'backup';
      from: DatabasePlace;
      to: string;
      keep: number | null;
      key_file: string;
      may_create_key: boolean;
    })
  | (Shared & { command: 'verify'; file: string; key_file: string })
  | (Shared & { command: 'restore'; file: string; into: DatabasePlace; key_file: string })
  | (Shared & { command: 'move-database'; from: string; to: string })
  | { command: 'help'; usage: string };

const keyFileHelp =
  '  --key-file FILE   the key file of the server; default: keys.json in the data directory; SLIPWAY_KEY_FILE\n';
const dataDirHelp = '  --data-dir DIR    the data directory of the server (default .slipway); SLIPWAY_DATA_DIR\n';
const jsonHelp = '  --json            print one JSON document\n';
/** Every account of the host can read a command line, so a password belongs in the variable. */
const targetVariable = 'SLIPWAY_TARGET_DATABASE_URL';

export const backupUsage = `Usage: slipway backup [options]
       slipway backup verify FILE [--key-file FILE] [--data-dir DIR]

Writes an encrypted copy of the whole database while the server runs.

  --to PLACE        a new file, or a directory (default: here)
  --keep N          then delete all but the newest N backups of this installation in the directory
  --database-url URL
                    PostgreSQL, as the owner of the tables; SLIPWAY_OWNER_DATABASE_URL, SLIPWAY_DATABASE_URL
${dataDirHelp}${keyFileHelp}${jsonHelp}
The key file is not in the backup, and no backup can be read without it: keep a copy of it elsewhere.
If --key-file names a missing file, it is created with a new key.
verify reads a backup to its end and writes nothing.
`;

export const restoreUsage = `Usage: slipway restore FILE --database-url URL | --data-dir DIR [options]

Reads a backup to its end, then loads it into an empty database.

  --database-url URL
                    an empty PostgreSQL database, as its owner; ${targetVariable}
  --data-dir DIR    a data directory without a database, instead of --database-url
${keyFileHelp}${jsonHelp}`;

export const moveUsage = `Usage: slipway move-database [--to URL] [--data-dir DIR]

Moves the embedded database of a stopped server to another PostgreSQL. The embedded one stays as it is,
and no server starts on it any more.

  --to URL          an empty database, as the owner of its tables; ${targetVariable}
${dataDirHelp}${jsonHelp}
Give a URL with a password in the variable: every account of the host can read a command line.
`;

const usages: Record<string, string> = { backup: backupUsage, restore: restoreUsage, 'move-database': moveUsage };

const flags = {
  to: { type: 'string' },
  'database-url': { type: 'string' },
  'data-dir': { type: 'string' },
  'key-file': { type: 'string' },
  keep: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const flagsByCommand: Record<string, (keyof typeof flags)[]> = {
  backup: ['to', 'keep', 'database-url', 'data-dir', 'key-file', 'json', 'help'],
  verify: ['data-dir', 'key-file', 'json', 'help'],
  restore: ['database-url', 'data-dir', 'key-file', 'json', 'help'],
  'move-database': ['to', 'data-dir', 'json', 'help'],
};

function parseKeep(text: string | undefined): number | null {
  if (text === undefined) return null;
  const keep = Number(text);
  if (!Number.isInteger(keep) || keep < 1) throw new SettingsError(`--keep must be a whole number from 1, not ${text}`);
  return keep;
}

function parse(args: string[], known: (keyof typeof flags)[]) {
  try {
    const options = Object.fromEntries(known.map((flag) => [flag, flags[flag]])) as typeof flags;
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
}

/** The first word is the command. Throws `SettingsError` for a command line that cannot be used. */
export function readOptions(words: string[], env: Record<string, string | undefined>): BackupOptions {
  const [program = '', ...rest] = words;
  const usage = usages[program];
  if (usage === undefined) throw new SettingsError(`${program} is not backup, restore or move-database`);
  const isVerify = program === 'backup' && rest[0] === 'verify';
  const command = isVerify ? 'verify' : program;
  const { values, positionals } = parse(isVerify ? rest.slice(1) : rest, flagsByCommand[command] ?? []);
  if (values.help) return { command: 'help', usage };
  const data_dir = resolve(values['data-dir'] ?? (env.SLIPWAY_DATA_DIR || '.slipway'));
  const key_file = values['key-file'] ?? (env.SLIPWAY_KEY_FILE || join(data_dir, 'keys.json'));
  const shared = { json: values.json === true };
  const readUrl = (fromEnvironment: string | undefined): string | null =>
    databaseUrlFrom(
      'database-url',
      // A directory on the command line overrides a database in the environment.
      values['database-url'] ?? (values['data-dir'] === undefined ? fromEnvironment || null : null),
    );
  const readFileArgument = (): string => {
    const [file, ...others] = positionals;
    if (file === undefined) throw new SettingsError('FILE is missing');
    if (others.length > 0) throw new SettingsError(`unexpected argument ${others[0]}`);
    return file;
  };
  if (command === 'verify') return { ...shared, command, file: readFileArgument(), key_file };
  if (command === 'restore') {
    // Not from the variables of the server, which name a database in use.
    const url = readUrl(env[targetVariable]);
    if (url === null && values['data-dir'] === undefined)
      throw new SettingsError(`name the empty database with --database-url, ${targetVariable} or --data-dir`);
    return { ...shared, command, file: readFileArgument(), into: { url, data_dir }, key_file };
  }
  if (positionals.length > 0) throw new SettingsError(`unexpected argument ${positionals[0]}`);
  if (command === 'move-database') {
    const to = databaseUrlFrom('to', values.to ?? (env[targetVariable] || null));
    if (to === null) throw new SettingsError(`name the empty database with --to or ${targetVariable}`);
    return { ...shared, command, from: data_dir, to };
  }
  return {
    ...shared,
    command: 'backup',
    from: { url: readUrl(env.SLIPWAY_OWNER_DATABASE_URL || env.SLIPWAY_DATABASE_URL), data_dir },
    to: values.to ?? '.',
    keep: parseKeep(values.keep),
    key_file,
    may_create_key: values['key-file'] !== undefined,
  };
}
