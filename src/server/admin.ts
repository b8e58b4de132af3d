/** The entry point of `slipway admin reset-token`, for people without an admin token. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { databaseUrlFrom, SettingsError } from '../base/settings/flag-values.ts';
import { type ResetPlace, type ResetToken, resetAdminToken } from '../operations/runtime/reset-admin-token.ts';
import { startFailureMessage } from '../operations/runtime/start-failure.ts';
import { type Database, openDatabase } from '../store/pg/database.ts';
import { openExistingPostgres } from '../store/pg/embedded/existing.ts';
import { hasTokens } from '../store/rows/tokens.ts';
import { adminUsage, renderReset } from './admin-text.ts';

async function requireSchema(db: Database): Promise<void> {
  if (!(await hasTokens(db)))
    throw new SettingsError(
      'the database has no tables of Slipway. Start the server on it first, or name its database.',
    );
}

async function reset(url: string, place: ResetPlace): Promise<ResetToken> {
  const db = openDatabase({ url, max_connections: 1 });
  try {
    await requireSchema(db);
    return await resetAdminToken(db, systemClock, place);
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
  const fromEnvironment = env.SLIPWAY_OWNER_DATABASE_URL || env.SLIPWAY_DATABASE_URL || null;
  const url = databaseUrlFrom('database-url', values['database-url'] ?? fromEnvironment);
  const data_dir = resolve(values['data-dir'] ?? (env.SLIPWAY_DATA_DIR || '.slipway'));
  const embedded = url === null ? await openExistingPostgres(data_dir, systemClock) : null;
  try {
    const done = await reset(embedded?.url ?? url ?? '', { data_dir, is_embedded: embedded !== null });
    process.stdout.write(renderReset(done));
    return 0;
  } finally {
    await embedded?.close();
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
