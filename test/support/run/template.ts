/** Creates the database that every test file clones: once per run, migrated and empty. */
import { DBOS } from '@dbos-inc/dbos-sdk';
import { migrate } from '../../../src/store/migrate.ts';
import { application } from '../../../src/store/pg/embedded/cluster.ts';
import { execute, template, withDatabase } from '../database.ts';

/** PostgreSQL clones only a database without connections, so the finished template allows none. */
export async function createTemplate(serverUrl: string): Promise<void> {
  await execute(serverUrl, `CREATE DATABASE ${template}`);
  await migrate(withDatabase(serverUrl, template), { application_role: async () => application });
  // The engine creates its tables at its first launch, in dozens of steps. A clone that already has
  // them starts in half the time.
  await DBOS.migrate(withDatabase(serverUrl, template));
  await execute(serverUrl, `ALTER DATABASE ${template} ALLOW_CONNECTIONS false IS_TEMPLATE true`);
}
