/**
 * Opens the fixture of the sequences: a database, virtual time, and two replicas with real sweeps.
 */
import { now, secondsLater } from '../../../src/base/clock.ts';
import { newReplicaId, newTokenId } from '../../../src/base/ids.ts';
import { type VirtualClock, virtualClock } from '../../../src/base/virtual-clock.ts';
import { createExternalDriver } from '../../../src/drivers/external/external-driver.ts';
import { createVirtualEngine } from '../../../src/engine/virtual-engine.ts';
import { engineListener } from '../../../src/operations/runtime/engine-listener.ts';
import { isRevoked } from '../../../src/store/agents/instances.ts';
import { createHeartbeatBuffer, type HeartbeatBuffer } from '../../../src/store/heartbeats/heartbeat-buffer.ts';
import { type Installation, openInstallation } from '../../../src/store/keys/installation.ts';
import { endReplica, registerReplica, renewReplicaLease } from '../../../src/store/operations/replicas.ts';
import { type Database, openDatabase } from '../../../src/store/pg/database.ts';
import { createJoinToken } from '../../../src/store/rows/tokens.ts';
import { publishStoredThrough } from '../../../src/store/supervision/ingest-gaps.ts';
import { defaultEnvironment, type TransitionEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { sweepRegistry } from '../../../src/sweeps/registry.ts';
import { createRefusals } from '../../../src/sweeps/runner/refusals.ts';
import type { SweepServices } from '../../../src/sweeps/runner/services.ts';
import { createSuspects } from '../../../src/sweeps/runner/suspects.ts';
import type { Sweep } from '../../../src/sweeps/runner/sweep.ts';
import { testDatabase } from '../../support/database.ts';
import { memoryKeyRing } from '../../support/key-ring.ts';
import { declarePools, joinSecret, yard } from './pools.ts';
import { withGenericPlans } from './prepare-statements.ts';
import type { Sequence } from './sequences.ts';

/**
 * The rules that decide on rows. The other sweeps are left out, because the sequences simulate the
 * prober and the engine.
 */
const decidingSweeps = [
  'brake-watch',
  'provision-deadline',
  'probe-promotes',
  'stuck-starting',
  'start-deadline',
  'liveness',
  'offline-deadline',
  'drain-deadline',
  'clean-deadline',
  'queue-deadline',
  'rescue-over',
  'release-deadline',
  'release-retry',
  'task-lease',
];

/** The brake holds verdicts so briefly that sequences also cover the time after a hold. */
const environment: TransitionEnvironment = {
  ...defaultEnvironment,
  brake: { window_seconds: 60, self_fault_seconds: 40, mass_failure_seconds: 50, resume_fraction: 0.05 },
};

export const patienceSeconds = 10;
export const staleSeconds = 30;
const leaseSeconds = 3600;

export interface Replica {
  services: SweepServices;
  sweeps: Sweep[];
}

export interface SequenceFixture {
  clock: VirtualClock;
  db: Database;
  environment: TransitionEnvironment;
  installation: Installation;
  beats: HeartbeatBuffer;
  replicas: Replica[];
  /** Replaces the first replica with a new one. */
  restart(): Promise<void>;
  /** Publishes that all replicas, or all but the first, have stored their heartbeats. */
  publishFlushed(all: boolean): Promise<void>;
  close(): Promise<void>;
}

async function openReplica(db: Database, clock: VirtualClock, installation: Installation): Promise<Replica> {
  const executor = await registerReplica(db, {
    replica_id: newReplicaId(clock),
    host: 'here',
    pid: process.pid,
    address: '',
    version: 'test',
    started_at: now(clock),
    lease_until: secondsLater(now(clock), leaseSeconds),
  });
  const ingest = {
    check: async () => ({ gap: false }),
    isSteady: () => true,
    isClockSettled: () => true,
    tightestStaleSeconds: () => staleSeconds,
    heartbeatLoad: () => ({ nodes: 0, replicas: 1 }),
  };
  const services: SweepServices = {
    db,
    clock,
    environment,
    installation,
    key_ring: memoryKeyRing(),
    executor,
    drivers: new Map(
      [yard, createExternalDriver({ isRevoked: (id) => isRevoked(db, id) })].map((driver) => [driver.name, driver]),
    ),
    server_url: () => 'http://127.0.0.1',
    public_ca: null,
    other_server_urls: async () => [],
    probe: async () => ({ ok: true, detail: 'status 200 in 1 ms' }),
    cancelRun: async () => {},
    engine: createVirtualEngine({ clock, listener: engineListener(() => services) }),
    host: 'here',
    ingest,
    restoration: { isObserving: () => false },
    suspects: createSuspects(db, ingest),
    refusals: createRefusals(),
    log: { warn() {} },
    isProcessAlive: () => true,
    onDeclaredDead: (error) => {
      throw error;
    },
  };
  return { services, sweeps: sweepRegistry(services).filter(({ name }) => decidingSweeps.includes(name)) };
}

export async function openSequenceFixture(sequences: readonly Sequence[]): Promise<SequenceFixture> {
  const database = await testDatabase();
  const databases = [8, 4].map((max_connections) =>
    openDatabase({ url: withGenericPlans(database.url), max_connections }),
  );
  const [db, secondDb] = databases;
  if (!db || !secondDb) throw new Error('expected two database pools');
  const clock = virtualClock();
  const installation = await openInstallation(db, now(clock));
  await declarePools(db, sequences, now(clock));
  const joinablePools = await db.query<{ name: string }>(`select name from pools where driver = 'external'`);
  await db.transaction(async (tx) => {
    for (const { name } of joinablePools)
      await createJoinToken(
        tx,
        { token_id: newTokenId(clock), pool: name, expires_at: null, max_uses: null, created_at: now(clock) },
        joinSecret(name),
      );
  });
  const replicas = [await openReplica(db, clock, installation), await openReplica(secondDb, clock, installation)];
  const beats = createHeartbeatBuffer(db, clock, (error) => {
    throw error;
  });
  const publish = async ({ services }: Replica, patience_seconds: number) => {
    const { replica_id } = services.executor;
    await renewReplicaLease(db, replica_id, secondsLater(now(clock), leaseSeconds));
    await publishStoredThrough(db, { replica_id, flushed_through: now(clock) }, patience_seconds, now(clock));
  };
  return {
    clock,
    db,
    environment,
    installation,
    beats,
    replicas,
    async restart() {
      const [firstReplica] = replicas;
      if (firstReplica) await endReplica(db, firstReplica.services.executor.replica_id, now(clock));
      replicas[0] = await openReplica(db, clock, installation);
      // Both replicas publish concurrently; only one of them may record the ingest gap.
      await Promise.all(replicas.map((replica) => publish(replica, patienceSeconds)));
    },
    async publishFlushed(all) {
      for (const replica of all ? replicas : replicas.slice(1)) await publish(replica, Number.MAX_SAFE_INTEGER / 1e6);
    },
    async close() {
      for (const opened of databases) await opened.close();
      await database.drop();
    },
  };
}
