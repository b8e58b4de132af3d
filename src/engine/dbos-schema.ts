/** DBOS's tables in a database where no engine is launched yet, as a restore needs them. */
import { allMigrations } from '@dbos-inc/dbos-sdk/internal/sysdb_migrations/internal/migrations';
import {
  getCurrentSysDBVersion,
  runSysMigrationsPg,
} from '@dbos-inc/dbos-sdk/internal/sysdb_migrations/migration_runner';
import type { ClientBase } from 'pg';

const name = 'dbos';
const migrations = allMigrations(name, { useListenNotify: true, isCockroach: false });

export const dbosSchema = {
  name,
  version_table: 'dbos_migrations',
  newest: migrations.length,
  readVersion: (client: ClientBase): Promise<number> => getCurrentSysDBVersion(client, name),
  async create(client: ClientBase, version: number): Promise<void> {
    await runSysMigrationsPg(client, migrations.slice(0, version), name, { onWarn: () => {} });
  },
};
