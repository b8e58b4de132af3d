/**
 * Redactors for the log lines of machines, one per pool. A line is compared only with the secrets
 * of its own pool: otherwise a tenant could log guesses and see which are secrets of other pools.
 * An unknown pool gets `allSecrets`.
 */
import type { LearningRedactor, Redactor } from '../../../base/redaction/redact.ts';

export interface PoolRedactors {
  /** If the pool is unknown, loads all pools. If it is still unknown, returns `allSecrets`. */
  of(pool: string): Promise<Redactor>;
  /** Adds secrets of the pool. Pass an empty list for a pool without secrets. */
  learn(pool: string, literals: readonly string[]): void;
  /** Forgets all pools; the next use loads them again. */
  forget(): void;
}

/** `load` reads the secrets of all pools and passes them to `learn`. */
export function createPoolRedactors(allSecrets: LearningRedactor, load: () => Promise<void>): PoolRedactors {
  const byPool = new Map<string, LearningRedactor>();
  /** Pools that were still unknown after a load: they are deleted, or the load failed. */
  const unlisted = new Set<string>();
  const withoutSecrets = allSecrets.withoutLearned();
  return {
    async of(pool) {
      if (!byPool.has(pool) && !unlisted.has(pool)) {
        await load();
        if (!byPool.has(pool)) unlisted.add(pool);
      }
      return byPool.get(pool) ?? allSecrets;
    },
    learn(pool, literals) {
      unlisted.delete(pool);
      const known = byPool.get(pool);
      if (literals.length === 0) {
        if (!known) byPool.set(pool, withoutSecrets);
        return;
      }
      const own = known && known !== withoutSecrets ? known : allSecrets.withoutLearned();
      own.learn(literals);
      byPool.set(pool, own);
    },
    forget() {
      byPool.clear();
      unlisted.clear();
    },
  };
}
