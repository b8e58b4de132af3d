/**
 * Creates the services that sweeps need, without a server. No operations are queued, so the engine
 * has nothing to run.
 */
import { now, secondsLater } from '../../src/base/clock.ts';
import { newReplicaId } from '../../src/base/ids.ts';
import { hostIdentity, isProcessAlive } from '../../src/base/network/host.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { createVirtualEngine } from '../../src/engine/virtual-engine.ts';
import { engineListener } from '../../src/operations/runtime/engine-listener.ts';
import { openInstallation } from '../../src/store/keys/installation.ts';
import { registerReplica } from '../../src/store/operations/replicas.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { databaseClock } from '../../src/store/pg/database-clock.ts';
import { defaultEnvironment } from '../../src/store/transitions/transition-rules.ts';
import { createRefusals } from '../../src/sweeps/runner/refusals.ts';
import type { SweepServices } from '../../src/sweeps/runner/services.ts';
import { createSuspects } from '../../src/sweeps/runner/suspects.ts';
import { openIngestWatch } from '../../src/sweeps/watchers/ingest-watch.ts';
import { memoryKeyRing } from '../../test/support/key-ring.ts';

/** Longer than the benchmark takes. */
const leaseSeconds = 3600;

export async function sweepServices(db: Database): Promise<SweepServices> {
  const clock = await databaseClock(db);
  const host = hostIdentity();
  const executor = await registerReplica(db, {
    replica_id: newReplicaId(clock),
    host,
    pid: process.pid,
    address: '',
    version: 'bench',
    started_at: now(clock),
    lease_until: secondsLater(now(clock), leaseSeconds),
  });
  // No heartbeats arrive in this process, so all of them count as stored.
  const ingest = await openIngestWatch({ db, executor, clock, flushedThrough: () => now(clock) });
  const services: SweepServices = {
    db,
    clock,
    environment: defaultEnvironment,
    installation: await openInstallation(db, now(clock)),
    key_ring: memoryKeyRing(),
    executor,
    drivers: new Map(),
    server_url: () => 'http://127.0.0.1',
    public_ca: null,
    other_server_urls: async () => [],
    probe: async () => ({ ok: true, detail: 'status 200 in 1 ms' }),
    cancelRun: async () => {},
    engine: createVirtualEngine({ clock: virtualClock(), listener: engineListener(() => services) }),
    host,
    ingest,
    restoration: { isObserving: () => false },
    suspects: createSuspects(db, ingest),
    refusals: createRefusals(),
    log: { warn() {} },
    isProcessAlive,
    onDeclaredDead: (error) => {
      throw error;
    },
  };
  return services;
}
