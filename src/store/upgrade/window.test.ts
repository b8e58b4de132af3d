/** Older servers start on a newer schema within the window; newer ones wait for old replicas. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts';
import { contractStep, expandStep, migrateAsNext, nextName, nextVersion } from '../../../test/support/next-version.ts';
import { until } from '../../../test/support/until.ts';
import { now, secondsLater, systemClock } from '../../base/clock.ts';
import { packageVersion } from '../../base/files/package-root.ts';
import { newReplicaId } from '../../base/ids.ts';
import { migrate } from '../migrate.ts';
import { endReplica, registerReplica } from '../operations/replicas.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { knownSchema } from './migration-steps.ts';
import { ReplicasTooOld, SchemaTooNew } from './window.ts';

let database: TestDatabase;
let db: Database;
beforeEach(async () => {
  database = await testDatabase();
  db = openDatabase({ url: database.url });
});
afterEach(async () => {
  await db.close();
  await database.drop();
});

const register = async (lease_seconds: number) => {
  const startedAt = now(systemClock);
  const { replica_id } = await registerReplica(db, {
    replica_id: newReplicaId(systemClock),
    host: 'h',
    pid: 1,
    address: 'http://replica',
    version: '0.1.0',
    started_at: startedAt,
    lease_until: secondsLater(startedAt, lease_seconds),
  });
  return replica_id;
};

test('an older version starts on a schema that a later one has expanded', async () => {
  expect(await migrateAsNext(database.url, expandStep)).toEqual({ applied: [nextName] });
  expect(await migrate(database.url)).toEqual({ applied: [], newer_schema: nextVersion });
  expect(
    await db.query('select runs_from, applied_by from schema_migrations where version = $1', [nextVersion]),
  ).toEqual([{ runs_from: 57, applied_by: packageVersion() }]);
});

test('an older version refuses a contracted schema, and says why and what to do', async () => {
  await migrateAsNext(database.url, contractStep);
  const refused: unknown = await migrate(database.url).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(SchemaTooNew);
  expect(String(refused)).toContain(`schema version ${nextVersion}, made by Slipway ${packageVersion()}`);
  expect(String(refused)).toContain(`a server must know version ${knownSchema + 1}`);
  expect(String(refused)).toContain('Start the newer Slipway again, or restore a backup');
});

test('a contract step waits until replicas that it would break have ended', async () => {
  const replica_id = await register(3600);
  const migrated = migrateAsNext(database.url, contractStep);
  const polls = new Set<string>();
  // The migration checks repeatedly, and changes nothing meanwhile.
  await until('the migration to check for replicas three times', async () => {
    const looking = await db.query<{ at: string }>(
      `select query_start::text as at
       from pg_stat_activity
       where datname = current_database()
         and application_name = 'slipway migrate'
         and query like '%from replicas running%'`,
    );
    for (const { at } of looking) polls.add(at);
    return polls.size >= 3;
  });
  expect(await db.query('select from schema_migrations where version = $1', [nextVersion])).toEqual([]);
  await endReplica(db, replica_id, now(systemClock));
  expect((await migrated).applied).toEqual([nextName]);
});

test('a contract step is refused while a replica runs that it would break', async () => {
  const replica_id = await register(3600);
  const refused: unknown = await migrateAsNext(database.url, contractStep).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ReplicasTooOld);
  expect(String(refused)).toContain(`${replica_id} (0.1.0, http://replica)`);
  expect(await migrate(database.url)).toEqual({ applied: [] });
});

test('an expand step runs beside older replicas, and a contract step beside dead ones', async () => {
  await register(-1);
  expect((await migrateAsNext(database.url, contractStep)).applied).toEqual([nextName]);
  await register(3600);
  await db.query('delete from schema_migrations where version = $1', [nextVersion]);
  await db.query('alter table nodes drop column extra');
  expect((await migrateAsNext(database.url, expandStep)).applied).toEqual([nextName]);
});
