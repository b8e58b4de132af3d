/** The database from which every test file clones its own: made once for a run, migrated and empty. */
import { DBOS } from '@dbos-inc/dbos-sdk';
import { migrate } from '../../../src/store/migrate.ts';
import { application } from '../../../src/store/pg/embedded/cluster.ts';
import { execute, template, withDatabase } from '../database.ts';

/** PostgreSQL clones only what nobody is connected to, so the finished template takes no more connections. */
export async function createTemplate(serverUrl: string): Promise<void> {
  await execute(serverUrl, `CREATE DATABASE ${template}`);
  await migrate(withDatabase(serverUrl, template), { application_role: async () => application });
  // The engine makes its own tables at its first launch, in dozens of steps; a clone that has them starts in half the time.
  await DBOS.migrate(withDatabase(serverUrl, template));
  await execute(serverUrl, `ALTER DATABASE ${template} ALLOW_CONNECTIONS false IS_TEMPLATE true`);
}
