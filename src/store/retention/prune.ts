/**
 * Deletes rows whose retention time is over, in batches. Each batch is one transaction, so a crash
 * undoes only the current batch, and the next pass continues. Two replicas never delete a row
 * twice: most statements skip rows that another replica has locked; those for logs and boot samples
 * wait.
 */
import { secondsLater } from '../../base/clock.ts';
import { firstIdAt } from '../../base/ids.ts';
import { keptSeconds, type RetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { type Database, StoreUnavailable, type Transaction } from '../pg/database.ts';
import { maxRows, pruneSmallSql, type SmallTable, smallTables } from './small-tables.ts';
import { pageSize, type RetentionWalk, walks } from './walks.ts';

/**
 * A deleted node or allocation. For an allocation, `node_id` is null. For a node, `allocation_id`
 * and `owner`, which is the tenant, are null.
 */
interface PrunedRow {
  node_id: Fact['node_id'];
  allocation_id: Fact['allocation_id'];
  correlation_id: Fact['correlation_id'];
  pool: string;
  name: string | null;
  owner: string | null;
  ended_at: Date;
}

export interface PrunePass {
  deleted: number;
  /** A walk is in the middle of its rows, or a batch was full. */
  more: boolean;
  /** One message for each failed batch. */
  failures: string[];
}

type Batch = Omit<PrunePass, 'failures'>;

export interface Pruner {
  /**
   * Runs one batch of each walk that does not rest, and of each small table. If one fails, the
   * others still run, unless the store is away.
   */
  pass(keep: RetentionSeconds, now: Date): Promise<PrunePass>;
}

const nouns = { 'allocation.pruned': 'allocation', 'node.pruned': 'machine' } as const;

function toFact(
  kind: NonNullable<RetentionWalk['fact']>,
  retention: RetentionWalk['class'],
  row: PrunedRow,
  keep_seconds: number,
  now: Date,
): Fact {
  const { pool, name, owner, ended_at, correlation_id, node_id, allocation_id } = row;
  return {
    at: now,
    layer: 'store',
    kind,
    summary: `deleted the record of this ${nouns[kind]}, which ended ${ended_at.toISOString()}: its retention time is over`,
    data: { retention, keep_seconds, pool, name, tenant: owner, ended_at: ended_at.toISOString() },
    correlation_id,
    node_id,
    allocation_id,
  };
}

async function prunePage(
  tx: Transaction,
  walk: RetentionWalk,
  ids: string[],
  keep_seconds: number,
  now: Date,
): Promise<number> {
  const { fact } = walk;
  const rows = await tx.query<PrunedRow>(walk.prune, [ids, secondsLater(now, -keep_seconds)]);
  if (fact)
    await recordEvidence(
      tx,
      rows.map((row) => toFact(fact, walk.class, row, keep_seconds, now)),
    );
  return rows.length;
}

/** Remembers where each walk is, so that a pass does not read again the rows that stay. */
export function createPruner(db: Database): Pruner {
  const cursors = new Map<RetentionWalk, string>();
  /**
   * Walks that reached their end with a page that deleted nothing. They rest until a pass ends
   * without `more`. If each restarted at once, some walk might be in the middle in every pass, and
   * `more` would stay true.
   */
  const resting = new Set<RetentionWalk>();

  const pruneNextPage = async (walk: RetentionWalk, keep: RetentionSeconds, now: Date): Promise<Batch> => {
    const keep_seconds = keptSeconds(walk.class, keep);
    const bound = firstIdAt(walk.id_kind, secondsLater(now, -keep_seconds));
    const page = await db.query<{ id: string }>(walk.page, [cursors.get(walk) ?? '', bound]);
    const ids = page.map(({ id }) => id);
    const deleted = ids.length === 0 ? 0 : await db.transaction((tx) => prunePage(tx, walk, ids, keep_seconds, now));
    if (deleted === walk.max_rows) return { deleted, more: true };
    const isFull = ids.length === pageSize;
    cursors.set(walk, isFull ? (ids.at(-1) ?? '') : '');
    if (!isFull && deleted === 0) resting.add(walk);
    // A full page may delete nothing, and rows on the next one may be due.
    return { deleted, more: isFull };
  };

  const pruneTable = async (table: SmallTable, keep: RetentionSeconds, now: Date): Promise<Batch> => {
    const before = secondsLater(now, -keptSeconds(table.class, keep));
    const { length } = await db.query(pruneSmallSql(table), [before]);
    return { deleted: length, more: length === maxRows };
  };

  return {
    async pass(keep, now) {
      const total: PrunePass = { deleted: 0, more: false, failures: [] };
      const add = async (name: string, batch: Promise<Batch>) => {
        try {
          const { deleted, more } = await batch;
          total.deleted += deleted;
          total.more ||= more;
        } catch (error) {
          if (error instanceof StoreUnavailable) throw error;
          total.failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
        }
      };
      for (const walk of walks) if (!resting.has(walk)) await add(walk.class, pruneNextPage(walk, keep, now));
      for (const each of smallTables) await add(each.table, pruneTable(each, keep, now));
      if (!total.more) resting.clear();
      return total;
    },
  };
}
