/**
 * Reads the evidence row that records a deletion by retention, so that a "not found" error can say
 * why.
 */
import type { RetentionSetting } from '../../lifecycle/limits/retention-classes.ts';
import { canSee, type Visibility } from '../../lifecycle/visibility.ts';
import { recordedByServerSql } from '../evidence/own-facts.ts';
import type { Queryable } from '../pg/database.ts';

export interface PruneRecord {
  retention: RetentionSetting;
  keep_seconds: number;
  ended_at: string;
  deleted_at: Date;
}

type PruneData = Pick<PruneRecord, 'retention' | 'keep_seconds' | 'ended_at'>;

/**
 * Reads the evidence row of a deletion, using the index on the id. Returns undefined if the row was
 * never deleted, or if retention has deleted that evidence too. A tenant gets only deletions of its
 * own allocations.
 */
export async function readPruneRecord(
  db: Queryable,
  entity: 'node' | 'allocation',
  id: string,
  visibility: Visibility,
): Promise<PruneRecord | undefined> {
  // The evidence of a deleted node names no tenant, so no tenant may see it. Return before the
  // query: the response time must not show whether the row exists.
  if (entity === 'node' && visibility.kind !== 'fleet') return undefined;
  const [fact] = await db.query<{ at: Date; data: PruneData; former_tenant: string | null }>(
    `select at, data, data ->> 'tenant' as former_tenant
     from evidence
     where ${entity}_id = $1
       and layer = 'store'
       and kind = '${entity}.pruned'
       and ${recordedByServerSql('evidence')}
     limit 1`,
    [id],
  );
  if (!fact || !canSee(visibility, fact.former_tenant)) return undefined;
  const { retention, keep_seconds, ended_at } = fact.data;
  return { retention, keep_seconds, ended_at, deleted_at: fact.at };
}
