/** Opens the connection of a backup or a restore, with limits on its waits. */
import pg from 'pg';
import { FailoverClient } from '../pg/connections/failover-client.ts';
import { portableText } from './catalog.ts';
import { inUseError } from './refusal.ts';

export interface WaitLimits {
  connect_ms: number;
  /** For a lock that another session holds. */
  lock_ms: number;
}

export const defaultWaitLimits: WaitLimits = { connect_ms: 15_000, lock_ms: 60_000 };

interface OpenOptions {
  url: string;
  application_name: string;
  limits?: WaitLimits | undefined;
}

/** The caller ends the client. */
export async function openClient(options: OpenOptions): Promise<pg.Client> {
  const { url, application_name, limits = defaultWaitLimits } = options;
  const client = new FailoverClient({
    connectionString: url,
    application_name,
    keepAlive: true,
    connectionTimeoutMillis: limits.connect_ms,
  });
  try {
    await client.connect();
    await client.query(portableText);
    await client.query(`set lock_timeout = ${limits.lock_ms}`);
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

const lockNotAvailable = '55P03';

/** Explains a lock timeout. Returns any other error as it is. */
export const explainLockTimeout = (error: unknown, remedy: string): unknown =>
  error instanceof pg.DatabaseError && error.code === lockNotAvailable
    ? inUseError('Another session holds a lock on one of its tables.', remedy)
    : error;
