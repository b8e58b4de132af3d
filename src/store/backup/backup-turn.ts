/**
 * Lets one replica at a time take a scheduled backup. The turn is an advisory lock of a session of
 * its own, so it ends with a crash of its holder.
 */
import { FailoverClient } from '../pg/connections/failover-client.ts';

/** An arbitrary number that must never change. */
const turnLock = 7_213_031;
const connectTimeoutMs = 20_000;

/** Returns false, without doing the work, if another replica has the turn. */
export async function runInBackupTurn(url: string, work: () => Promise<void>): Promise<boolean> {
  const client = new FailoverClient({
    connectionString: url,
    application_name: 'slipway backup turn',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
  });
  // If the connection breaks, another replica may take a backup too, which harms nothing.
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [turnLock]);
    if (rows[0]?.taken !== true) return false;
    await work();
    return true;
  } finally {
    await client.end().catch(() => {});
  }
}
