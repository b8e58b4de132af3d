/**
 * Stores when tokens were last used, at most once a minute for each token. Writes are batched and
 * never delay a request.
 */
import { type Clock, moment } from '../../../base/clock.ts';
import type { Queryable } from '../../pg/database.ts';

/** A replica writes the use of a token at most this often. */
const minIntervalMs = 60_000;
/** Uses that arrive within this time are written in one statement. */
const batchMs = 1_000;

export interface TokenUses {
  /** Notes that a request was just authenticated with the token. */
  note(token_id: string): void;
  /** Writes the pending uses. */
  stop(): Promise<void>;
}

/** Keeps the latest use of each token, because replicas may write in any order. */
async function writeUses(db: Queryable, uses: ReadonlyMap<string, number>): Promise<void> {
  await db.query(
    `insert into token_uses as known (token_id, last_used_at)
     select token_id, last_used_at
     from unnest($1::text[], $2::timestamptz[]) as used (token_id, last_used_at)
     -- All replicas lock rows in the same order, so they cannot deadlock.
     order by token_id
     on conflict (token_id) do update
       set last_used_at = excluded.last_used_at
       where known.last_used_at < excluded.last_used_at`,
    [[...uses.keys()], [...uses.values()].map(moment)],
  );
}

export function createTokenUses(db: Queryable, clock: Clock, onError: (error: unknown) => void): TokenUses {
  /** The uses of the last minute that are written or pending, oldest first. */
  const recent = new Map<string, number>();
  let pending = new Map<string, number>();
  let cancel: (() => void) | undefined;
  let writing: Promise<void> = Promise.resolve();

  const dropOld = () => {
    for (const [token_id, at_ms] of recent) {
      if (clock.nowMs() - at_ms < minIntervalMs) return;
      recent.delete(token_id);
    }
  };
  const flush = () => {
    cancel?.();
    cancel = undefined;
    const uses = pending;
    pending = new Map();
    if (uses.size === 0) return;
    dropOld();
    writing = writing
      .then(() => writeUses(db, uses))
      .catch((error) => {
        // Forget the failed uses, so that the next use of each token is written.
        for (const token_id of uses.keys()) recent.delete(token_id);
        onError(error);
      });
  };

  return {
    note(token_id) {
      const at_ms = clock.nowMs();
      const last_ms = recent.get(token_id);
      if (last_ms !== undefined && at_ms - last_ms < minIntervalMs) return;
      recent.delete(token_id);
      recent.set(token_id, at_ms);
      pending.set(token_id, at_ms);
      cancel ??= clock.after(batchMs, flush);
    },
    async stop() {
      flush();
      await writing;
    },
  };
}
