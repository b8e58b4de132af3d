/** The entry point of `slipway admin reset-token`, for people without an admin token. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { databaseUrlFrom, SettingsError } from '../base/settings/flag-values.ts';
import { type ResetToken, resetAdminToken } from '../operations/runtime/reset-admin-token.ts';
import { adminTokenPath } from '../operations/runtime/server-start.ts';
import { startFailureMessage } from '../operations/runtime/start-failure.ts';
import { type Database, openDatabase } from '../store/pg/database.ts';
import { openExistingPostgres } from '../store/pg/embedded/existing.ts';
import { hasTokens } from '../store/rows/tokens.ts';
import { adminUsage, renderReset } from './admin-text.ts';

interface Target {
  url: string;
  /** Null if the token has no file: the database is external, and no server here stored one. */
  data_dir: string | null;
  close(): Promise<void>;
}

async function openTarget(url: string | null, directory: string): Promise<Target> {
  if (url === null) return { ...(await openExistingPostgres(directory, systemClock)), data_dir: directory };
  return { url, data_dir: existsSync(adminTokenPath(directory)) ? directory : null, close: async () => {} };
}

async function requireSchema(db: Database): Promise<void> {
  if (!(await hasTokens(db)))
    throw new SettingsError(
      'the database has no tables of Slipway. Start the server on it first, or name its database.',
    );
}

async function reset({ url, data_dir }: Target): Promise<ResetToken> {
  const db = openDatabase({ url, max_connections: 1 });
  try {
    await requireSchema(db);
    return await resetAdminToken(db, systemClock, data_dir);
  } finally {
    await db.close();
  }
}

async function run(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      'database-url': { type: 'string' },
      'data-dir': { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(`${adminUsage}\n`);
    return 0;
  }
  const [command, ...rest] = positionals;
  if (command !== 'reset-token' || rest.length > 0) throw new SettingsError('the only command is reset-token');
  const fromEnvironment =
    values['data-dir'] === undefined ? env.SLIPWAY_OWNER_DATABASE_URL || env.SLIPWAY_DATABASE_URL || null : null;
  const url = databaseUrlFrom('database-url', values['database-url'] ?? fromEnvironment);
  const target = await openTarget(url, resolve(values['data-dir'] ?? (env.SLIPWAY_DATA_DIR || '.slipway')));
  try {
    process.stdout.write(renderReset(await reset(target)));
    return 0;
  } finally {
    await target.close();
  }
}

function explain(error: unknown): string {
  const isUsage =
    error instanceof SettingsError ||
    (error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'));
  return isUsage ? `${error.message}\n\n${adminUsage}` : startFailureMessage(error);
}

if (import.meta.main)
  process.exitCode = await run(process.argv.slice(2), process.env).catch((error: unknown) => {
    process.stderr.write(`slipway admin: ${explain(error)}\n`);
    return 2;
  });
