/**
 * Opens the fixture of operations: the real store, rules and operations on two replicas, with
 * virtual time, a simulated provider and simulated agents. Time advances in ticks, and a tick ends
 * when no statement runs any more.
 */
import { now, secondsLater } from '../../../src/base/clock.ts';
import { newReplicaId } from '../../../src/base/ids.ts';
import { type VirtualClock, virtualClock } from '../../../src/base/virtual-clock.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import { createExternalDriver } from '../../../src/drivers/external/external-driver.ts';
import type { OperationRun } from '../../../src/engine/engine.ts';
import { operationRegistry } from '../../../src/operations/registry.ts';
import type { OperationServices } from '../../../src/operations/runtime/services.ts';
import { isRevoked } from '../../../src/store/agents/instances.ts';
import { createHeartbeatBuffer } from '../../../src/store/heartbeats/heartbeat-buffer.ts';
import { openInstallation } from '../../../src/store/keys/installation.ts';
import { registerReplica } from '../../../src/store/operations/replicas.ts';
import { type Database, openDatabase } from '../../../src/store/pg/database.ts';
import { publishStoredThrough } from '../../../src/store/supervision/ingest-gaps.ts';
import { defaultEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { sweepRegistry } from '../../../src/sweeps/registry.ts';
import { createRefusals } from '../../../src/sweeps/runner/refusals.ts';
import type { SweepServices } from '../../../src/sweeps/runner/services.ts';
import { createSuspects } from '../../../src/sweeps/runner/suspects.ts';
import type { Sweep } from '../../../src/sweeps/runner/sweep.ts';
import { withGenericPlans } from '../../properties/support/prepare-statements.ts';
import { testDatabase } from '../../support/database.ts';
import { memoryKeyRing } from '../../support/key-ring.ts';
import { type Agents, createAgents, heartbeat } from './agents.ts';
import type { ArmedFault } from './faults.ts';
import { createRuns, type WatchedRun } from './runs.ts';
import { createUpstream, type Upstream } from './upstream.ts';

/** The sweeps of replicas and the network, which the fixture simulates. All other sweeps run. */
const simulatedSweeps = ['ingest-watch', 'replica-takeover', 'prober', 'housekeeping', 'row-retention'];

/** Long ticks make runs fast, but a tick must be shorter than every timeout. */
export const tickSeconds = 4;
const leaseSeconds = 10_000_000;
const maxPasses = 500;
/** How often a rule is repeated that decided something but does not return `more`. */
const repeatsWithoutMore = 3;

export interface OperationFixture {
  db: Database;
  clock: VirtualClock;
  services: OperationServices;
  upstream: Upstream;
  agents: Agents;
  tick(): Promise<void>;
  /** Waits until no statement runs. */
  waitUntilIdle(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Also the limit on concurrent statements: hundreds of operations would wait too long for a
 * connection and time out.
 */
const connections = 12;

/**
 * Counts running statements, so that a tick can wait for them, and queues statements while no
 * connection is free.
 */
function countStatements(db: Database): { db: Database; waitUntilIdle(): Promise<void> } {
  let runningCount = 0;
  let freeConnections = connections;
  const waiters: (() => void)[] = [];
  const countWhileRunning = async <T>(work: () => Promise<T>): Promise<T> => {
    runningCount++;
    if (freeConnections > 0) freeConnections--;
    else await new Promise<void>((resolve) => waiters.push(resolve));
    try {
      return await work();
    } finally {
      runningCount--;
      const next = waiters.shift();
      if (next) next();
      else freeConnections++;
    }
  };
  const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    db: {
      ...db,
      query: (...config) => countWhileRunning(() => db.query(...config)),
      transaction: (work) => countWhileRunning(() => db.transaction(work)),
    },
    async waitUntilIdle() {
      for (let idleTurns = 0; idleTurns < 3; idleTurns = runningCount === 0 ? idleTurns + 1 : 0) await nextTurn();
    },
  };
}

/** Parts of the product that a counter-test replaces with broken ones. */
export interface BrokenParts {
  driver?(original: Driver): Driver;
  sweeps?(original: Sweep[]): Sweep[];
  /** The limit for a run with broken parts. */
  max_ticks?: number;
}

export interface FixtureParts extends BrokenParts {
  findFault(run: OperationRun): Promise<ArmedFault | undefined>;
  onRun(run: WatchedRun): void;
}

const keepOriginal = <T>(original: T): T => original;

export async function openOperationFixture(parts: FixtureParts): Promise<OperationFixture> {
  const { driver: replaceDriver = keepOriginal, sweeps: replaceSweeps = keepOriginal, findFault, onRun } = parts;
  const database = await testDatabase();
  const { db, waitUntilIdle } = countStatements(
    openDatabase({ url: withGenericPlans(database.url), max_connections: connections }),
  );
  const clock = virtualClock();
  const installation = await openInstallation(db, now(clock));
  const upstream = createUpstream();
  const externalDriver = createExternalDriver({ isRevoked: (id) => isRevoked(db, id) });
  const openReplica = async () => {
    const executor = await registerReplica(db, {
      ...{ replica_id: newReplicaId(clock), host: 'here', pid: process.pid, address: '', version: 'test' },
      ...{ started_at: now(clock), lease_until: secondsLater(now(clock), leaseSeconds) },
    });
    const services: OperationServices = {
      ...{ db, clock, environment: defaultEnvironment, installation, executor },
      key_ring: memoryKeyRing(),
      drivers: new Map([replaceDriver(upstream.driver), externalDriver].map((driver) => [driver.name, driver])),
      server_url: () => 'http://127.0.0.1',
      public_ca: null,
      other_server_urls: async () => [],
      probe: async () => ({ ok: true, detail: 'status 200 in 1 ms' }),
      cancelRun: async (workflow_id, attempt) => {
        await runs.cancel(workflow_id, attempt);
      },
    };
    return { services, definitions: operationRegistry(services) };
  };
  const replicas = [await openReplica(), await openReplica()] as const;
  const [{ services }] = replicas;
  const runs = createRuns(clock, [...replicas], findFault, onRun);
  const ingest = {
    check: async () => ({ gap: false }),
    isSteady: () => true,
    isClockSettled: () => true,
    tightestStaleSeconds: () => heartbeat.stale_after_seconds,
    heartbeatLoad: () => ({ nodes: 0, replicas: 1 }),
  };
  const sweepServices: SweepServices = {
    ...services,
    ...{ engine: runs, host: 'here', ingest, suspects: createSuspects(db, ingest), isProcessAlive: () => true },
    restoration: { isObserving: () => false },
    refusals: createRefusals(),
    log: { warn() {} },
    onDeclaredDead: (error) => {
      throw error;
    },
  };
  const sweeps = replaceSweeps(sweepRegistry(sweepServices).filter(({ name }) => !simulatedSweeps.includes(name)));
  const beats = createHeartbeatBuffer(db, clock, (error) => {
    throw error;
  });
  const agents = createAgents({ db, clock, environment: services.environment, installation, beats, upstream });

  const sweep = async () => {
    for (const { name, run } of sweeps)
      for (let pass = 0; ; pass++) {
        if (pass === maxPasses) throw new Error(`${name} still finds due rows after ${maxPasses} passes`);
        const { decided, more } = await run(now(clock));
        if (!(more ?? (decided > 0 && pass < repeatsWithoutMore))) break;
      }
  };

  return {
    ...{ db, clock, services, upstream, agents, waitUntilIdle },
    async tick() {
      await runs.recoverCrashed();
      await clock.advance(tickSeconds * 1000);
      await waitUntilIdle();
      await agents.act();
      for (const { services } of replicas)
        await publishStoredThrough(
          db,
          { replica_id: services.executor.replica_id, flushed_through: now(clock) },
          leaseSeconds,
          now(clock),
        );
      await sweep();
      await waitUntilIdle();
    },
    async close() {
      await runs.shutdown();
      await waitUntilIdle();
      await db.close();
      await database.drop();
    },
  };
}
