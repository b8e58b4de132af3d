/** The entry point of `slipway upgrade --check`, which reports the effects of an upgrade. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { readDiskSpace } from '../base/files/disk-space.ts';
import { databaseUrlFrom, SettingsError } from '../base/settings/flag-values.ts';
import { startFailureMessage } from '../operations/runtime/start-failure.ts';
import { FailoverClient } from '../store/pg/connections/failover-client.ts';
import { openExistingPostgres } from '../store/pg/embedded/existing.ts';
import { checkUpgrade, type UpgradeReport } from '../store/upgrade/check.ts';
import { renderUpgrade, upgradeUsage } from './upgrade-text.ts';

/** A check must not wait for a migration that runs, nor read a huge fleet for minutes. */
const limits = `set local lock_timeout = '5s'; set local statement_timeout = '60s'`;
const exitCodes: Record<UpgradeReport['verdict'], number> = { ready: 0, attention: 1, refused: 2 };

interface Target {
  url: string;
  free_bytes: number | null;
  close(): Promise<void>;
}

async function openTarget(url: string | null, data_dir: string): Promise<Target> {
  // The database may be on another host.
  if (url !== null) return { url, free_bytes: null, close: async () => {} };
  const existing = await openExistingPostgres(data_dir, systemClock);
  return { ...existing, free_bytes: (await readDiskSpace(existing.clusterDir))?.free_bytes ?? null };
}

async function readReport({ url, free_bytes }: Target): Promise<UpgradeReport> {
  const client = new FailoverClient({
    connectionString: url,
    application_name: 'slipway upgrade',
    connectionTimeoutMillis: 15_000,
  });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin transaction isolation level repeatable read read only');
    await client.query(limits);
    return await checkUpgrade(client, { free_bytes });
  } finally {
    await client.end();
  }
}

async function runCheck(argv: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parseArgs({
    args: argv,
    options: {
      check: { type: 'boolean' },
      'database-url': { type: 'string' },
      'data-dir': { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(`${upgradeUsage}\n`);
    return 0;
  }
  if (!values.check) throw new SettingsError('--check is required; to upgrade, start the newer server');
  if (values['database-url'] !== undefined && values['data-dir'] !== undefined)
    throw new SettingsError('give --database-url or --data-dir, not both');
  const fromEnvironment =
    values['data-dir'] === undefined ? env.SLIPWAY_OWNER_DATABASE_URL || env.SLIPWAY_DATABASE_URL || null : null;
  const url = databaseUrlFrom('database-url', values['database-url'] ?? fromEnvironment);
  const target = await openTarget(url, resolve(values['data-dir'] ?? (env.SLIPWAY_DATA_DIR || '.slipway')));
  try {
    const report = await readReport(target);
    process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : renderUpgrade(report));
    return exitCodes[report.verdict];
  } finally {
    await target.close();
  }
}

function explain(error: unknown): string {
  const isUsage =
    error instanceof SettingsError ||
    (error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'));
  return isUsage ? `${error.message}\n\n${upgradeUsage}` : startFailureMessage(error);
}

if (import.meta.main)
  process.exitCode = await runCheck(process.argv.slice(2), process.env).catch((error: unknown) => {
    process.stderr.write(`slipway upgrade: ${explain(error)}\n`);
    return 2;
  });
