/** Reads the command lines of `slipway backup`, `restore` and `move-database`. */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { databaseUrlFrom, SettingsError, s3EndpointOf } from '../base/settings/flag-values.ts';

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
      s3_endpoint: string | null;
      keep: number | null;
      key_file: string;
      may_create_key: boolean;
    })
  | (Shared & { command: 'verify'; file: string; s3_endpoint: string | null; key_file: string })
  | (Shared & { command: 'list'; place: string; s3_endpoint: string | null })
  | (Shared & { command: 'restore'; file: string; s3_endpoint: string | null; into: DatabasePlace; key_file: string })
  | (Shared & { command: 'move-database'; from: string; to: string })
  | { command: 'help'; usage: string };

const keyFileHelp =
  '  --key-file FILE   the key file of the server; default: keys.json in the data directory; SLIPWAY_KEY_FILE\n';
const dataDirHelp = '  --data-dir DIR    the data directory of the server (default .slipway); SLIPWAY_DATA_DIR\n';
const jsonHelp = '  --json            print one JSON document\n';
const endpointHelp = `  --s3-endpoint URL
                    the endpoint of an S3-compatible store; SLIPWAY_S3_ENDPOINT, AWS_ENDPOINT_URL
`;
const bucketHelp = `A place may be in a bucket of S3 or of a compatible store: s3://BUCKET/PREFIX, or
s3://BUCKET/PREFIX/NAME.slipway-backup for one backup. Region and credentials come from the environment, as for
other programs of AWS: AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of the machine.
`;
/** Every account of the host can read a command line, so a password belongs in the variable. */
const targetVariable = 'SLIPWAY_TARGET_DATABASE_URL';

export const backupUsage = `Usage: slipway backup [options]
       slipway backup verify FILE [--key-file FILE] [--data-dir DIR] [--s3-endpoint URL]
       slipway backup list [PLACE] [--s3-endpoint URL]

Writes an encrypted copy of the whole database while the server runs.

  --to PLACE        a new file, or a directory (default: here)
  --keep N          then delete all but the newest N backups of this installation there
${endpointHelp}  --database-url URL
                    PostgreSQL, as the owner of the tables; SLIPWAY_OWNER_DATABASE_URL, SLIPWAY_DATABASE_URL
${dataDirHelp}${keyFileHelp}${jsonHelp}
The key file is not in the backup, and no backup can be read without it: keep a copy of it elsewhere.
If --key-file names a missing file, it is created with a new key.
verify reads a backup to its end and writes nothing. list prints the backups of a directory (default: here).

${bucketHelp}`;

export const restoreUsage = `Usage: slipway restore FILE --database-url URL | --data-dir DIR [options]

Reads a backup to its end, then loads it into an empty database.

  --database-url URL
                    an empty PostgreSQL database, as its owner; ${targetVariable}
  --data-dir DIR    a data directory without a database, instead of --database-url
${endpointHelp}${keyFileHelp}${jsonHelp}
FILE may be in a bucket of S3 or of a compatible store: s3://BUCKET/PREFIX/NAME.slipway-backup. Region and credentials
come from the environment: see slipway backup --help.
`;

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
  's3-endpoint': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const flagsByCommand: Record<string, (keyof typeof flags)[]> = {
  backup: ['to', 'keep', 's3-endpoint', 'database-url', 'data-dir', 'key-file', 'json', 'help'],
  verify: ['s3-endpoint', 'data-dir', 'key-file', 'json', 'help'],
  list: ['s3-endpoint', 'json', 'help'],
  restore: ['s3-endpoint', 'database-url', 'data-dir', 'key-file', 'json', 'help'],
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
  const [subcommand = ''] = rest;
  const isSubcommand = program === 'backup' && ['verify', 'list'].includes(subcommand);
  const command = isSubcommand ? subcommand : program;
  const { values, positionals } = parse(isSubcommand ? rest.slice(1) : rest, flagsByCommand[command] ?? []);
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
  const endpointOf = (place: string) =>
    s3EndpointOf(place, values['s3-endpoint'] ?? (env.SLIPWAY_S3_ENDPOINT || null), env);
  if (command === 'list') {
    const [place = '.', ...others] = positionals;
    if (others.length > 0) throw new SettingsError(`unexpected argument ${others[0]}`);
    return { ...shared, command, place, s3_endpoint: endpointOf(place) };
  }
  if (command === 'verify') {
    const file = readFileArgument();
    return { ...shared, command, file, s3_endpoint: endpointOf(file), key_file };
  }
  if (command === 'restore') {
    // The variables of the server are not read, because they name a database in use.
    const url = readUrl(env[targetVariable]);
    if (url === null && values['data-dir'] === undefined)
      throw new SettingsError(`name the empty database with --database-url, ${targetVariable} or --data-dir`);
    const file = readFileArgument();
    return { ...shared, command, file, s3_endpoint: endpointOf(file), into: { url, data_dir }, key_file };
  }
  if (positionals.length > 0) throw new SettingsError(`unexpected argument ${positionals[0]}`);
  if (command === 'move-database') {
    const to = databaseUrlFrom('to', values.to ?? (env[targetVariable] || null));
    if (to === null) throw new SettingsError(`name the empty database with --to or ${targetVariable}`);
    return { ...shared, command, from: data_dir, to };
  }
  const to = values.to ?? '.';
  return {
    ...shared,
    command: 'backup',
    from: { url: readUrl(env.SLIPWAY_OWNER_DATABASE_URL || env.SLIPWAY_DATABASE_URL), data_dir },
    to,
    s3_endpoint: endpointOf(to),
    keep: parseKeep(values.keep),
    key_file,
    may_create_key: values['key-file'] !== undefined,
  };
}
