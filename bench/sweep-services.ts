/** All that sweeps need of a server, without the server: nothing is queued here, so the engine has nothing to run. */

import { now, secondsLater } from '../src/base/clock.ts';
import { hostIdentity, isProcessAlive } from '../src/base/host.ts';
import { newReplicaId } from '../src/base/ids.ts';
import { virtualClock } from '../src/base/virtual-clock.ts';
import { createVirtualEngine } from '../src/engine/virtual-engine.ts';
import { engineListener } from '../src/operations/engine-listener.ts';
import type { Database } from '../src/store/database.ts';
import { databaseClock } from '../src/store/database-clock.ts';
import { defaultEnvironment } from '../src/store/door-rules.ts';
import { openInstallation } from '../src/store/installation.ts';
import { registerReplica } from '../src/store/replicas.ts';
import { openIngestWatch } from '../src/sweeps/ingest-watch.ts';
import { createRefusals } from '../src/sweeps/refusals.ts';
import type { SweepServices } from '../src/sweeps/services.ts';
import { createSuspects } from '../src/sweeps/suspects.ts';
import { memoryKeyRing } from '../test/support/key-ring.ts';

const benchSeconds = 3600;

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
    lease_until: secondsLater(now(clock), benchSeconds),
  });
  // Nobody beats here, so everything that was heard is stored.
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
