/**
 * Deletes rows whose retention time is over, in batches. Each batch is one transaction, so a crash
 * leaves whole rows, and the next pass continues. Two replicas skip each other's rows.
 */
import { secondsLater } from '../../base/clock.ts';
import { firstIdAt } from '../../base/ids.ts';
import { keptSeconds, type RetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { maxRows, pruneSmall, smallTables } from './small-tables.ts';
import { pageSize, type Walk, walks } from './walks.ts';

/** A deleted node or allocation; null where the other has a value. */
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
}

export interface Pruner {
  /** Runs one batch of each class. */
  pass(keep: RetentionSeconds, now: Date): Promise<PrunePass>;
}

const nouns = { 'allocation.pruned': 'allocation', 'node.pruned': 'machine' } as const;

function factOf(
  kind: NonNullable<Walk['fact']>,
  of: Walk['of'],
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
    data: { retention: of, keep_seconds, pool, name, tenant: owner, ended_at: ended_at.toISOString() },
    correlation_id,
    node_id,
    allocation_id,
  };
}

async function prunePage(tx: Transaction, walk: Walk, ids: string[], keep_seconds: number, now: Date): Promise<number> {
  const { fact, of } = walk;
  const rows = await tx.query<PrunedRow>(walk.prune, [ids, secondsLater(now, -keep_seconds)]);
  if (fact)
    await recordEvidence(
      tx,
      rows.map((row) => factOf(fact, of, row, keep_seconds, now)),
    );
  return rows.length;
}

/** Remembers where each walk is, so that rows that stay are not looked at in every pass. */
export function createPruner(db: Database): Pruner {
  const cursors = new Map<Walk, string>();
  /**
   * Walks that reached their end without a deletion. They wait for the others, because walks that
   * end in turns would never let a pass be the last.
   */
  const resting = new Set<Walk>();

  const step = async (walk: Walk, keep: RetentionSeconds, now: Date): Promise<PrunePass> => {
    const keep_seconds = keptSeconds(walk.of, keep);
    const bound = firstIdAt(walk.ids, secondsLater(now, -keep_seconds));
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

  return {
    async pass(keep, now) {
      const total: PrunePass = { deleted: 0, more: false };
      const add = ({ deleted, more }: PrunePass) => {
        total.deleted += deleted;
        total.more ||= more;
      };
      for (const walk of walks) if (!resting.has(walk)) add(await step(walk, keep, now));
      for (const each of smallTables) {
        const before = secondsLater(now, -keptSeconds(each.of, keep));
        const { length } = await db.query(pruneSmall(each), [before]);
        add({ deleted: length, more: length === maxRows });
      }
      if (!total.more) resting.clear();
      return total;
    },
  };
}
