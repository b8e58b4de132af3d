/** Counts the blocks that reads touch, so that tests can compare small and large histories. */
import { isSettledSql } from '../evidence/commit-order.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable } from '../pg/database.ts';

interface Plan {
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
}

const toLiteral = (value: unknown) =>
  value === null ? 'null' : Array.isArray(value) ? `'{${value.join(',')}}'` : `'${value}'`;

/**
 * Counts blocks with generic plans, as on a connection that has been open for a while. `db` must
 * have only one connection, because statements are prepared on it.
 */
export function blockCounter(db: Database) {
  let statements = 0;
  return async (read: (counting: Queryable) => Promise<unknown>): Promise<number> => {
    let blocks = 0;
    await db.query('set plan_cache_mode = force_generic_plan');
    await read({
      ...db,
      query: async (text, values) => {
        const name = `counted_${++statements}`;
        await db.query(`prepare ${name} as ${text}`);
        const [row] = await db.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(
          `explain (analyze, buffers, format json) execute ${name} (${(values ?? []).map(toLiteral).join(', ')})`,
        );
        const plan = row?.['QUERY PLAN'][0]?.Plan;
        blocks += (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0);
        return db.query(text, values);
      },
    });
    if (blocks === 0) throw new Error('no statement was counted');
    return blocks;
  };
}

const batchSize = 1_000;

export async function recordMany(db: Database, count: number, fact: (index: number) => Fact): Promise<void> {
  const facts = Array.from({ length: count }, (_, index) => fact(index));
  for (let from = 0; from < count; from += batchSize)
    await db.transaction((tx) => recordEvidence(tx, facts.slice(from, from + batchSize)));
}

/**
 * Whether all facts are readable. A fact becomes readable when no older transaction runs in any
 * database of the cluster.
 */
export async function areFactsSettled(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ settled: boolean }>(
    `select coalesce(bool_and(${isSettledSql}), true) as settled from evidence`,
  );
  return row?.settled ?? false;
}
