/** A database that charges the evidence written through it to somebody, for the limits on outside callers. */
import type { Database, WriteAccount } from './database.ts';

export const chargedTo = (db: Database, account: WriteAccount): Database => ({
  ...db,
  account,
  transaction: (work) => db.transaction((tx) => work({ ...tx, account })),
});
