/** Creates DBOS's tables, and reads their version, without an engine. A restore needs this. */
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
