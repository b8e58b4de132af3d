/**
 * Locks a data directory with a session-level advisory lock in its database. The lock ends with
 * the owner's connection, so a crash releases it without cleanup.
 */
import { Client } from 'pg';
import { type Clock, pause } from '../../../base/clock.ts';
import { EmbeddedPostgresError } from './embedded-error.ts';
import { isProcessAlive } from './postmaster.ts';

export interface DirectoryLock {
  /** Resolves if the lock is lost without `release`. Another server may then own the directory. */
  lost: Promise<Error>;
  release(): Promise<void>;
}

/** An arbitrary number that must never change: "slipway" in ASCII. */
const lockKey = 0x736c6970776179n.toString();

const ownerName = (pid: number) => `slipway owner ${pid}`;
const ownerPid = (applicationName: string): number | undefined => {
  const pid = /^slipway owner (\d+)$/.exec(applicationName)?.[1];
  return pid === undefined ? undefined : Number(pid);
};

/** How long PostgreSQL may take to notice that the connection of a killed owner is gone. */
const graceMs = 10_000;
const pollMs = 20;

export async function lockDataDirectory(url: string, dataDir: string, clock: Clock): Promise<DirectoryLock> {
  const client = new Client({ connectionString: url, application_name: ownerName(process.pid), keepAlive: true });
  let released = false;
  const lost = new Promise<Error>((resolve) => {
    const onLost = (error: Error) => {
      if (!released) resolve(error);
    };
    client.on('error', onLost);
    client.on('end', () => onLost(new Error('the connection that holds the lock on the data directory has ended')));
  });
  await client.connect();
  const release = async () => {
    released = true;
    await client.end();
  };
  try {
    await takeLock(client, dataDir, clock);
  } catch (error) {
    await release();
    throw error;
  }
  return { lost, release };
}

async function takeLock(client: Client, dataDir: string, clock: Clock): Promise<void> {
  const giveUpAt = clock.monotonicMs() + graceMs;
  while (!(await tryLock(client))) {
    const holder = await readHolder(client);
    const isEnding = holder === undefined || !isProcessAlive(holder);
    if (!isEnding || clock.monotonicMs() > giveUpAt) throw ownedError(dataDir, holder);
    await pause(clock, pollMs);
  }
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1::bigint) as taken', [
    lockKey,
  ]);
  return rows[0]?.taken === true;
}

async function readHolder(client: Client): Promise<number | undefined> {
  const { rows } = await client.query<{ application_name: string }>(
    `select activity.application_name
     from pg_locks held
     join pg_stat_activity activity using (pid)
     where held.locktype = 'advisory'
       and held.granted
       -- This is a lock with one 64-bit key, which pg_locks splits over two columns.
       and held.objsubid = 1
       and (held.classid::bigint << 32) + held.objid::bigint = $1::bigint
       and held.database = (select oid from pg_database where datname = current_database())`,
    [lockKey],
  );
  return rows[0] && ownerPid(rows[0].application_name);
}

const ownedError = (dataDir: string, holder: number | undefined) =>
  new EmbeddedPostgresError(
    'data_directory_owned',
    `Another Slipway server ${holder === undefined ? '' : `(process ${holder}) `}already runs on the data directory ${dataDir}.`,
    'Stop that server, or choose another --data-dir; several servers share one PostgreSQL through --database-url.',
  );
