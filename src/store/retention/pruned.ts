/** Reads what retention deleted, so that a person who asks for it learns why it is gone. */
import type { RetentionSetting } from '../../lifecycle/limits/retention-classes.ts';
import { canSee, type Visibility } from '../../lifecycle/visibility.ts';
import { isOwn } from '../evidence/own-facts.ts';
import type { Queryable } from '../pg/database.ts';

export interface Pruned {
  retention: RetentionSetting;
  keep_seconds: number;
  ended_at: string;
  deleted_at: Date;
}

type PrunedData = Pick<Pruned, 'retention' | 'keep_seconds' | 'ended_at'>;

/**
 * Reads the fact of a deletion by its index. Returns undefined if the row was never deleted, or so
 * long ago that the fact was dropped too. A tenant learns only about its own allocations.
 */
export async function prunedFact(
  db: Queryable,
  noun: 'node' | 'allocation',
  id: string,
  visibility: Visibility,
): Promise<Pruned | undefined> {
  // The fact of a node names no tenant. Without a read, not even the time of the answer tells more.
  if (noun === 'node' && visibility.kind !== 'fleet') return undefined;
  const [fact] = await db.query<{ at: Date; data: PrunedData; owner: string | null }>(
    `select at, data, data ->> 'tenant' as owner
     from evidence
     where ${noun}_id = $1
       and layer = 'store'
       and kind = '${noun}.pruned'
       and ${isOwn('evidence')}
     limit 1`,
    [id],
  );
  if (!fact || !canSee(visibility, fact.owner)) return undefined;
  const { retention, keep_seconds, ended_at } = fact.data;
  return { retention, keep_seconds, ended_at, deleted_at: fact.at };
}
