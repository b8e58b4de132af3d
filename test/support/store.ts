/** An open store with its own database, for one test file. */

import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { testDatabase } from './database.ts';

export interface TestStore {
  db: Database;
  /** Closes the store and drops its database. */
  close(): Promise<void>;
}

export async function testStore(options: { max_connections?: number } = {}): Promise<TestStore> {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url, ...options });
  return {
    db,
    async close() {
      await db.close();
      await database.drop();
    },
  };
}
