/**
 * Redactors for the log lines of machines, one per pool. A line is compared only with the secrets
 * of its own pool: otherwise a tenant could log guesses and see which are secrets of other pools.
 */
import type { LearningRedactor, Redactor } from '../../../base/redaction/redact.ts';

export interface PoolRedactors {
  of(pool: string): Redactor;
  /** Adds secrets of the pool. Pass an empty list for a pool without secrets. */
  learn(pool: string, literals: readonly string[]): void;
  forget(): void;
}

/** Lines of a pool that was not loaded yet are redacted with every known secret. */
export function createPoolRedactors(allSecrets: LearningRedactor): PoolRedactors {
  const byPool = new Map<string, LearningRedactor>();
  const withoutSecrets = allSecrets.withoutLearned();
  return {
    of: (pool) => byPool.get(pool) ?? allSecrets,
    learn(pool, literals) {
      const known = byPool.get(pool);
      if (literals.length === 0) {
        if (!known) byPool.set(pool, withoutSecrets);
        return;
      }
      const own = known && known !== withoutSecrets ? known : allSecrets.withoutLearned();
      own.learn(literals);
      byPool.set(pool, own);
    },
    forget: () => byPool.clear(),
  };
}
