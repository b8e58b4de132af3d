/**
 * Prepares the store of a server that restarts: its fleet sent heartbeats until a moment ago.
 */
import { join } from 'node:path';
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import { newReplicaId } from '../../src/base/ids.ts';
import { effectiveStaleSeconds } from '../../src/lifecycle/deadlines/heartbeat-policy.ts';
import { migrate } from '../../src/store/migrate.ts';
import { endReplica, registerReplica } from '../../src/store/operations/replicas.ts';
import { fillFleet } from '../harness/resting-fleet.ts';
import { type Replica, startReplica } from '../harness/server-process.ts';
import { type Store, startStore } from './store.ts';

const minIntervalSeconds = 10;
const jitter = 0.1;

/** The values that determine the heartbeat interval. */
export interface FleetSize {
  nodes: number;
  /** The configured heartbeats per second. */
  rate: number;
}

export const adminToken = 'swt_only-for-the-benchmarks-0123456789';

/** The interval the server assigns to this fleet, before jitter. */
export const intervalSeconds = ({ nodes, rate }: FleetSize): number => Math.max(minIntervalSeconds, nodes / rate);

/** The longest stale time of any node. */
export const longestStaleSeconds = (size: FleetSize): number =>
  effectiveStaleSeconds(0, intervalSeconds(size) * (1 + jitter));

/**
 * Records a replica that received heartbeats until `at` and then ended. The benchmark's server then
 * starts as after a restart, with a gap that began at `at`.
 */
async function recordFormerReplica(store: Store, at: Date): Promise<void> {
  const db = store.open();
  const { replica_id } = await registerReplica(db, {
    replica_id: newReplicaId(systemClock),
    host: 'bench',
    pid: 0,
    address: '',
    version: 'bench',
    started_at: secondsLater(at, -3600),
    lease_until: at,
  });
  await db.query('update replicas set flushed_through = $2 where replica_id = $1', [replica_id, at]);
  await endReplica(db, replica_id, at);
  await db.close();
}

export async function openStore(directory: string, size: FleetSize): Promise<Store> {
  const store = await startStore(join(directory, 'store'));
  try {
    await migrate(store.ownerUrl());
    const interval_seconds = intervalSeconds(size);
    const pace = { interval_seconds, stale_seconds: effectiveStaleSeconds(0, interval_seconds) };
    const db = store.open();
    const lastFlushAt = now(systemClock);
    await fillFleet(db, { idle: size.nodes, inFlight: 0, pace });
    await db.close();
    await recordFormerReplica(store, lastFlushAt);
    return store;
  } catch (error) {
    await store.end();
    throw error;
  }
}

/**
 * `rate` is the configured heartbeat rate of this replica. `sourceDirectory` holds the version to
 * run; by default, the server runs from this repository.
 */
export const startServer = (
  directory: string,
  store: Store,
  rate: number,
  name = 'server',
  sourceDirectory?: string,
): Promise<Replica> =>
  startReplica(
    join(directory, name),
    [...store.arguments(), '--beat-rate', String(rate)],
    { SLIPWAY_ADMIN_TOKEN: adminToken },
    sourceDirectory,
  );
