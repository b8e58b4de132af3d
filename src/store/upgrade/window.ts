/** Decides whether an older server may start on a newer schema, and older replicas keep running. */
import type pg from 'pg';
import { pause, systemClock } from '../../base/clock.ts';
import { packageVersion } from '../../base/files/package-root.ts';
import { windowSchema } from './migration-steps.ts';

export interface AppliedMigration {
  version: number;
  name: string;
  /** Null for migrations that were recorded before the column existed. */
  runs_from: number | null;
  applied_by: string | null;
}

/** A running server, from its row in `replicas`. */
export interface RunningReplica {
  replica_id: string;
  host: string;
  address: string;
  version: string;
  /** The newest schema version that it knows; null if it is too old to say so. */
  schema_version: number | null;
}

/** Reads the columns as JSON, because earlier schemas lack some. Empty for a new database. */
export async function listAppliedMigrations(client: pg.ClientBase): Promise<AppliedMigration[]> {
  const { rows: found } = await client.query(`select where to_regclass('schema_migrations') is not null`);
  if (found.length === 0) return [];
  const { rows } = await client.query<AppliedMigration>(
    `select version,
            name,
            (to_jsonb(done) ->> 'runs_from')::integer as runs_from,
            to_jsonb(done) ->> 'applied_by' as applied_by
     from schema_migrations done
     order by version`,
  );
  return rows;
}

/** Lists replicas with a lease that has not ended. */
export async function listRunningReplicas(client: pg.ClientBase): Promise<RunningReplica[]> {
  const { rows: found } = await client.query(`select where to_regclass('replicas') is not null`);
  if (found.length === 0) return [];
  const { rows } = await client.query<RunningReplica>(
    `select replica_id,
            host,
            address,
            version,
            (to_jsonb(running) ->> 'schema_version')::integer as schema_version
     from replicas running
     where ended_at is null
       and lease_until > now()
     order by epoch`,
  );
  return rows;
}

/** The schema version that a server must know to run, given migrations that it does not know. */
export const neededSchema = (unknown: readonly AppliedMigration[]): number =>
  Math.max(0, ...unknown.map(({ version, runs_from }) => runs_from ?? version));

export class SchemaTooNew extends Error {
  override name = 'SchemaTooNew';
}

/** Throws if this program is too old for the schema. */
export function refuseBeyondWindow(done: readonly AppliedMigration[], supported: number): void {
  const unknown = done.filter(({ version }) => version > supported);
  const needed = neededSchema(unknown);
  if (needed <= supported) return;
  const newest = unknown.at(-1);
  const by = newest?.applied_by ? `, made by Slipway ${newest.applied_by}` : '';
  throw new SchemaTooNew(
    [
      `the database has schema version ${newest?.version}${by}, and this Slipway ${packageVersion()} is too old for it.`,
      `  It knows version ${supported}. To run on that schema, a server must know version ${needed}.`,
      '  Start the newer Slipway again, or restore a backup that this version made.',
    ].join('\n'),
  );
}

export class ReplicasTooOld extends Error {
  override name = 'ReplicasTooOld';
}

/** A killed replica keeps its lease for 10 s, and all tries together take 15 s. */
const maxTries = 60;
const retryDelayMs = 250;

/** The schema version that a replica knows. One without a record is from before the window. */
export const toKnownSchema = ({ schema_version }: RunningReplica, newest: number): number =>
  schema_version ?? Math.min(newest, windowSchema - 1);

/** Waits until no replica runs that the pending migrations would break. */
export async function waitForOlderReplicas(
  client: pg.ClientBase,
  { needed, newest }: { needed: number; newest: number },
): Promise<void> {
  for (let tries = 1; ; tries++) {
    const tooOld = (await listRunningReplicas(client)).filter((each) => toKnownSchema(each, newest) < needed);
    if (tooOld.length === 0) return;
    if (tries === maxTries)
      throw new ReplicasTooOld(
        [
          `servers that are too old for the new schema still run: ${tooOld.map(describeReplica).join(', ')}.`,
          `  They know schema version ${Math.min(...tooOld.map((each) => toKnownSchema(each, newest)))}, and must know version ${needed}.`,
          '  Stop them, or upgrade them to a version in between first. Nothing was changed.',
        ].join('\n'),
      );
    await pause(systemClock, retryDelayMs);
  }
}

const describeReplica = ({ replica_id, version, address, host }: RunningReplica): string =>
  `${replica_id} (${version}, ${address || host})`;
