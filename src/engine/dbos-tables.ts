/**
 * Our own statements on DBOS's tables, for functions that DBOS's API lacks. They depend on tables
 * that DBOS may change, so DBOS is pinned to one version.
 */

import { createHash } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import { type Clock, pause } from '../base/clock.ts';

/** An arbitrary number. It must never change, because all replicas have to use the same lock. */
const launchLock = 718_202_601;
const launchLockPauseMs = 25;

/** DBOS migrates its tables without a lock, so two replicas that start together would collide. */
export async function withLaunchLock<T>(pool: Pool, clock: Clock, work: () => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    // Polls, because a statement that waits for the lock holds a snapshot, and DBOS's `create index
    // concurrently` waits for all snapshots: the two would deadlock.
    for (;;) {
      const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [launchLock]);
      if (rows[0]?.taken) break;
      await pause(clock, launchLockPauseMs);
    }
    return await work();
  } finally {
    // Closing the connection ends its session, and so the lock, unless a pooler keeps the session.
    await client.query('select pg_advisory_unlock($1)', [launchLock]).catch(() => {});
    client.release(true);
  }
}

/**
 * Whether a message with this idempotency key was ever sent to each run, in the order of the ids.
 * Such messages have a fixed id, so they are found even after they were consumed.
 */
export async function checkMessagesSent(pool: Pool, dbos_ids: readonly string[], key: string): Promise<boolean[]> {
  const messageIds = dbos_ids.map((dbos_id) => `${key}::${dbos_id}`);
  const { rows } = await pool.query<{ message_uuid: string }>(
    'select message_uuid from dbos.notifications where message_uuid = any($1)',
    [messageIds],
  );
  const sent = new Set(rows.map(({ message_uuid }) => message_uuid));
  return messageIds.map((id) => sent.has(id));
}

export async function hasUnreadMessage(pool: Pool, dbos_id: string, topic: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    'select from dbos.notifications where destination_uuid = $1 and topic = $2 and not consumed limit 1',
    [dbos_id, topic],
  );
  return rowCount !== 0;
}

/**
 * Lets any replica execute a run of this executor again, or all of them. Leaves out runs that
 * another replica has already taken over. Returns the number of runs.
 */
export async function returnToQueue(
  pool: Pool,
  runs: { executor_id: string; dbos_id: string | null },
  queue: string,
): Promise<number> {
  const { rowCount } = await pool.query(
    `update dbos.workflow_status
        set status = 'ENQUEUED',
          owner_xid = null,
          started_at_epoch_ms = null,
          queue_name = coalesce(queue_name, $3)
      where status = 'PENDING'
       and executor_id = $1
       and ($2::text is null or workflow_uuid = $2)`,
    [runs.executor_id, runs.dbos_id, queue],
  );
  return rowCount ?? 0;
}

export async function listExecutorsWithRuns(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ executor_id: string }>(
    `select distinct executor_id from dbos.workflow_status where status = 'PENDING'`,
  );
  return rows.map((row) => row.executor_id);
}

/** The ids of runs that ended before `beforeMs`, oldest first. */
export async function listRunsFinishedBefore(pool: Pool, beforeMs: number, limit: number): Promise<string[]> {
  const { rows } = await pool.query<{ workflow_uuid: string }>(
    `select workflow_uuid
     from dbos.workflow_status
      where status not in ('PENDING', 'ENQUEUED', 'DELAYED')
       and completed_at < $1
      order by completed_at
     limit $2`,
    [Math.floor(beforeMs), limit],
  );
  return rows.map((row) => row.workflow_uuid);
}

/**
 * More than the number of recurring statements. The limit keeps texts that are built differently
 * each time from filling the cache.
 */
const maxStatements = 100;
/** A prepared statement that returns all columns fails once the table gets another column. */
const returnsAllColumns = /\b(select|returning)\s+(\w+\.)?\*/i;
const canRecur = /^\s*(select|insert|update)\b/i;

type Query = (...args: unknown[]) => unknown;

/**
 * Turns DBOS's recurring statements into prepared ones. DBOS sends plain text, which PostgreSQL
 * plans each time, and planning takes longer than execution. A statement is prepared if it has a
 * name, so this adds names to the statements of a connection.
 */
export function prepareStatements(client: ClientBase): void {
  const names = new Map<string, string>();
  const nameOf = (text: string): string | undefined => {
    const existing = names.get(text);
    if (existing !== undefined || names.size >= maxStatements || !canRecur.test(text) || returnsAllColumns.test(text))
      return existing;
    const name = `dbos_${createHash('md5').update(text).digest('base64url')}`;
    names.set(text, name);
    return name;
  };
  const original = client.query.bind(client) as Query;
  const prepared: Query = (text, values, ...rest) => {
    const name = typeof text === 'string' && Array.isArray(values) ? nameOf(text) : undefined;
    return name === undefined ? original(text, values, ...rest) : original({ name, text, values }, ...rest);
  };
  client.query = prepared as typeof client.query;
}
