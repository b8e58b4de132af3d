/** Stores replicas and their leases. Each start of a server gets a higher epoch. */
import type { ReplicaId } from '../../base/ids.ts';
import type { Overview } from '../../contract/fleet/overview.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable } from '../pg/database.ts';
import { knownSchema } from '../upgrade/migration-steps.ts';
import type { Executor } from './executions.ts';

/** Long enough that a replica may miss two renewals. */
export const leaseSeconds = 10;
export const renewEverySeconds = 3;

export interface ReplicaRow {
  replica_id: ReplicaId;
  epoch: string;
  host: string;
  pid: number;
  address: string;
  version: string;
  /** The newest schema version that the replica knows; null for replicas of 0.1.0. */
  schema_version: number | null;
  started_at: Date;
  lease_until: Date;
  ended_at: Date | null;
}

export async function registerReplica(
  db: Queryable,
  replica: Omit<ReplicaRow, 'epoch' | 'schema_version' | 'ended_at'>,
): Promise<Executor> {
  const [row] = await db.query<{ epoch: string }>(
    `insert into replicas (replica_id, host, pid, address, version, schema_version, started_at, lease_until)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     returning epoch`,
    [
      replica.replica_id,
      replica.host,
      replica.pid,
      replica.address,
      replica.version,
      knownSchema,
      replica.started_at,
      replica.lease_until,
    ],
  );
  if (!row) throw new Error('the replica could not be registered');
  return { replica_id: replica.replica_id, epoch: row.epoch };
}

/** Publishes the address of a replica once it listens. */
export async function announceReplica(db: Queryable, id: ReplicaId, address: string): Promise<void> {
  await db.query('update replicas set address = $2 where replica_id = $1', [id, address]);
}

/** Returns the addresses of the other live replicas. Agents fall back to them. */
export async function listOtherAddresses(db: Queryable, id: ReplicaId, now: Date): Promise<string[]> {
  const rows = await db.query<{ address: string }>(
    `select distinct address
     from replicas
     where replica_id <> $1
       and ended_at is null
       and lease_until > $2
       -- The address is empty until the replica listens.
       and address <> ''
       -- Replicas behind one load balancer share an address.
       and address is distinct from (select address from replicas where replica_id = $1)`,
    [id, now],
  );
  return rows.map((row) => row.address);
}

/** Returns false if this replica was declared dead and must stop serving. */
export async function renewReplicaLease(db: Queryable, id: ReplicaId, lease_until: Date): Promise<boolean> {
  const rows = await db.query(
    `update replicas set lease_until = $2
     where replica_id = $1
       and ended_at is null
     returning replica_id`,
    [id, lease_until],
  );
  return rows.length > 0;
}

export async function listUnfinishedReplicas(db: Queryable): Promise<ReplicaRow[]> {
  return db.query<ReplicaRow>(
    `select *
     from replicas
     where ended_at is null
     order by epoch`,
  );
}

/**
 * Marks replicas as ended and returns those that this call ended. If several replicas call this,
 * only one of them ends each dead replica, and records that it did.
 */
export function declareReplicasDead(
  db: Database,
  dead: { replica_id: ReplicaId; why: string }[],
  by: ReplicaId,
  now: Date,
): Promise<ReplicaId[]> {
  return db.transaction(async (tx) => {
    const rows = await tx.query<{ replica_id: ReplicaId }>(
      `update replicas set ended_at = $2, taken_over_by = $3
       where replica_id = any($1)
         and ended_at is null
       returning replica_id`,
      [dead.map((each) => each.replica_id), now, by],
    );
    const ended = rows.map((row) => row.replica_id);
    await recordEvidence(
      tx,
      dead
        .filter((each) => ended.includes(each.replica_id))
        .map((each) => ({
          at: now,
          layer: 'store',
          kind: 'replica.ended',
          summary: `replica ${each.replica_id} has ended (${each.why}); ${by} takes over its operations`,
          data: { replica_id: each.replica_id, why: each.why, taken_over_by: by },
        })),
    );
    return ended;
  });
}

/** Returns the given replicas that have ended. */
export async function findEndedReplicas(db: Queryable, ids: string[]): Promise<ReplicaId[]> {
  const rows = await db.query<{ replica_id: ReplicaId }>(
    `select replica_id
     from replicas
     where replica_id = any($1)
       and ended_at is not null`,
    [ids],
  );
  return rows.map((row) => row.replica_id);
}

/** Ends this replica. The evidence makes the other replicas take over its operations at once. */
export function endReplica(db: Database, id: ReplicaId, now: Date): Promise<void> {
  return db.transaction(async (tx) => {
    const ended = await tx.query(
      `update replicas set ended_at = $2
       where replica_id = $1
         and ended_at is null
       returning replica_id`,
      [id, now],
    );
    const others = (await listUnfinishedReplicas(tx)).filter(({ lease_until }) => lease_until > now);
    if (ended.length === 0 || others.length === 0) return;
    await recordEvidence(tx, [
      {
        at: now,
        layer: 'store',
        kind: 'replica.ended',
        summary: `replica ${id} has ended (it was stopped); the others take over its operations`,
        data: { replica_id: id, why: 'it was stopped', taken_over_by: null },
      },
    ]);
  });
}

export async function listReplicas(db: Queryable, now: Date): Promise<Overview['replicas']> {
  return (await listUnfinishedReplicas(db)).map((row) => ({
    replica_id: row.replica_id,
    host: row.host,
    address: row.address,
    version: row.version,
    live: row.lease_until > now,
    started_at: row.started_at.toISOString(),
  }));
}
