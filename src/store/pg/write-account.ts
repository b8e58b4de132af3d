/** A database that charges the evidence written through it to somebody, for the limits on outside callers. */
import type { Database } from './database.ts';

export interface WriteAccount {
  charge(rows: number, bytes: number): void;
}

export const chargedTo = (db: Database, account: WriteAccount): Database => ({
  ...db,
  account,
  transaction: (work) => db.transaction((tx) => work({ ...tx, account })),
});
