/**
 * Redactors for the log lines of machines, one for each pool. A line is compared only with the secrets of the pool that it comes from:
 * otherwise a tenant could log guesses and see which of them are secrets of other pools.
 */
import type { LearningRedactor, Redactor } from '../../../base/redaction/redact.ts';

export interface PoolRedactors {
  of(pool: string): Redactor;
  /** Adds to what is known of the pool; a pool without secrets is learned with an empty list. */
  learn(pool: string, literals: readonly string[]): void;
  forget(): void;
}

/** A pool that is not known yet is redacted by everything that is known: rather too much than too little. */
export function createPoolRedactors(everything: LearningRedactor): PoolRedactors {
  const byPool = new Map<string, LearningRedactor>();
  const withoutSecrets = everything.withoutLearned();
  return {
    of: (pool) => byPool.get(pool) ?? everything,
    learn(pool, literals) {
      const known = byPool.get(pool);
      if (literals.length === 0) {
        if (!known) byPool.set(pool, withoutSecrets);
        return;
      }
      const own = known && known !== withoutSecrets ? known : everything.withoutLearned();
      own.learn(literals);
      byPool.set(pool, own);
    },
    forget: () => byPool.clear(),
  };
}
