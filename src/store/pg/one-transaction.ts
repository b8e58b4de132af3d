/**
 * A database whose every statement runs in one open transaction, so that work made of several transactions becomes one:
 * all of it is committed, or none. Whoever opened the transaction ends it.
 */
import type { Database, Transaction } from './database.ts';

export const withinTransaction = (db: Database, tx: Transaction): Database => ({
  ...db,
  one_connection: true,
  query: (text, values, how) => tx.query(text, values, how),
  evidenceWritten: () => tx.evidenceWritten(),
  // A failed part fails the whole: there is no savepoint to go back to, and nobody may carry on after an error.
  transaction: (work) => work(tx),
});
