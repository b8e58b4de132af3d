/**
 * Checks at startup whether a pooler such as PgBouncer is in front of the database, and refuses one
 * that does not give each connection a session of its own, or has too few sessions. Session locks
 * and LISTEN cannot work with changing sessions, and a session lock would stay behind in one.
 */
import { FailoverClient } from './failover-client.ts';

export class PoolerRefused extends Error {
  override name = 'PoolerRefused';
}

const protocolViolation = '08P01';
const answerTimeoutMs = 15_000;
/** A pooler that hands out its sessions in turn is detected only if few sessions are free. */
const maxHolders = 3;
const remedy = 'Set pool_mode = session for this database and user, or connect to PostgreSQL directly.';
const transactionPoolingError = () =>
  new PoolerRefused(
    `the pooler before the database changes sessions between transactions (pool_mode = transaction), which Slipway cannot use. ${remedy}`,
  );
const statementPoolingError = () =>
  new PoolerRefused(
    `the pooler before the database refuses transactions (pool_mode = statement), which Slipway cannot use. ${remedy}`,
  );

const poolTooSmallError = (cause: Error) =>
  new PoolerRefused(
    `the pooler before the database gave no further session (${cause.message}). Raise its pool_size to the connections of all replicas (--database-connections each).`,
    { cause },
  );

async function open(url: string): Promise<FailoverClient> {
  const client = new FailoverClient({
    connectionString: url,
    application_name: 'slipway pooler check',
    connectionTimeoutMillis: answerTimeoutMs,
    query_timeout: answerTimeoutMs,
  });
  client.on('error', () => {});
  await client.connect();
  return client;
}

const readSession = async (client: FailoverClient): Promise<number | undefined> =>
  (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;

/** PostgreSQL announces its process id at login; a pooler announces another number. */
const isDirect = (client: FailoverClient, session: number | undefined) =>
  (client as unknown as { processID: number | null }).processID === session;

/** Begins a transaction, which fails if the pooler has no further session. */
async function beginIn(client: FailoverClient): Promise<void> {
  await client.query('begin').catch((error: Error) => {
    // PgBouncer refuses `begin` in statement mode; the driver gives a timeout no code.
    throw 'code' in error && error.code === protocolViolation ? statementPoolingError() : poolTooSmallError(error);
  });
}

/**
 * Opens transactions on further connections. In session mode each of them has a session of its own,
 * and the first connection keeps its own too.
 */
export async function refuseTransactionPooling(url: string): Promise<void> {
  const clients: FailoverClient[] = [];
  const openNext = async () => {
    const client = await open(url);
    clients.push(client);
    return client;
  };
  try {
    const first = await openNext();
    const session = await readSession(first);
    if (isDirect(first, session)) return;
    for (let holders = 0; holders < maxHolders; holders++) {
      const holder = await openNext();
      await beginIn(holder);
      if ((await readSession(holder)) === session || (await readSession(first)) !== session)
        throw transactionPoolingError();
    }
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()));
  }
}
