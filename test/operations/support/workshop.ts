/**
 * Where operations are tried: the real store, the product's own rules and operations, virtual time, two replicas, a provider
 * that keeps the truth, and agents that are played. Everything that happens, happens in ticks, and a tick is over when
 * nobody has a statement under way any more.
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
import { publishHeard } from '../../../src/store/supervision/ingest-gaps.ts';
import { defaultEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { sweepRegistry } from '../../../src/sweeps/registry.ts';
import { createRefusals } from '../../../src/sweeps/runner/refusals.ts';
import type { SweepServices } from '../../../src/sweeps/runner/services.ts';
import { createSuspects } from '../../../src/sweeps/runner/suspects.ts';
import type { Sweep } from '../../../src/sweeps/runner/sweep.ts';
import { preparing } from '../../properties/support/prepare-statements.ts';
import { testDatabase } from '../../support/database.ts';
import { memoryKeyRing } from '../../support/key-ring.ts';
import { type Agents, createAgents, heartbeat } from './agents.ts';
import type { Armed } from './faults.ts';
import { createRuns, type WatchedRun } from './runs.ts';
import { createUpstream, type Upstream } from './upstream.ts';

/** They tend replicas and the network, which the workshop plays itself. Every other rule is at work here. */
const playedSweeps = ['ingest-watch', 'replica-takeover', 'prober', 'housekeeping'];

/** So long that few are needed, and shorter than the shortest time that anybody is given to answer. */
export const tickSeconds = 4;
const leaseSeconds = 10_000_000;
const mostPasses = 500;
/** Rules that do not say whether more is due. */
const passesOfUntold = 3;

export interface Workshop {
  db: Database;
  clock: VirtualClock;
  services: OperationServices;
  upstream: Upstream;
  agents: Agents;
  tick(): Promise<void>;
  /** Until nobody has a statement under way. */
  quiet(): Promise<void>;
  close(): Promise<void>;
}

/** As many as are ever at work at once; hundreds of operations would else wait for a connection longer than they may. */
const connections = 12;

/** Counts what is under way, so that a tick can wait for it, and lets nobody begin who would have to wait for a connection. */
function counting(db: Database): { db: Database; quiet(): Promise<void> } {
  let underWay = 0;
  let free = connections;
  const waiting: (() => void)[] = [];
  const counted = async <T>(work: () => Promise<T>): Promise<T> => {
    underWay++;
    if (free > 0) free--;
    else await new Promise<void>((go) => waiting.push(go));
    try {
      return await work();
    } finally {
      underWay--;
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    db: {
      ...db,
      query: (...asked) => counted(() => db.query(...asked)),
      transaction: (work) => counted(() => db.transaction(work)),
    },
    async quiet() {
      for (let still = 0; still < 3; still = underWay === 0 ? still + 1 : 0) await turn();
    },
  };
}

/** For counter-tests: parts of the product, broken. */
export interface Broken {
  driver?(whole: Driver): Driver;
  sweeps?(whole: Sweep[]): Sweep[];
  /** The longest that a broken world is watched. */
  most_ticks?: number;
}

export interface WorkshopParts extends Broken {
  watch(run: OperationRun): Promise<Armed | undefined>;
  begun(run: WatchedRun): void;
}

const asItIs = <T>(whole: T): T => whole;

export async function openWorkshop(parts: WorkshopParts): Promise<Workshop> {
  const { driver = asItIs, sweeps: composed = asItIs, watch, begun } = parts;
  const database = await testDatabase();
  const { db, quiet } = counting(openDatabase({ url: preparing(database.url), max_connections: connections }));
  const clock = virtualClock();
  const installation = await openInstallation(db, now(clock));
  const upstream = createUpstream();
  const external = createExternalDriver({ revoked: (id) => isRevoked(db, id) });
  const openReplica = async () => {
    const executor = await registerReplica(db, {
      ...{ replica_id: newReplicaId(clock), host: 'here', pid: process.pid, address: '', version: 'test' },
      ...{ started_at: now(clock), lease_until: secondsLater(now(clock), leaseSeconds) },
    });
    const services: OperationServices = {
      ...{ db, clock, environment: defaultEnvironment, installation, executor },
      key_ring: memoryKeyRing(),
      drivers: new Map([driver(upstream.driver), external].map((each) => [each.name, each])),
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
  const runs = createRuns(clock, [...replicas], watch, begun);
  const ingest = {
    check: async () => ({ gap: false }),
    isSteady: () => true,
    tightestStaleSeconds: () => heartbeat.stale_after_seconds,
    listened: () => ({ nodes: 0, replicas: 1 }),
  };
  const sweepServices: SweepServices = {
    ...services,
    ...{ engine: runs, host: 'here', ingest, suspects: createSuspects(db, ingest), isProcessAlive: () => true },
    refusals: createRefusals(),
    log: { warn() {} },
    onDeclaredDead: (error) => {
      throw error;
    },
  };
  const sweeps = composed(sweepRegistry(sweepServices).filter(({ name }) => !playedSweeps.includes(name)));
  const beats = createHeartbeatBuffer(db, clock, (error) => {
    throw error;
  });
  const agents = createAgents({ db, clock, environment: services.environment, installation, beats, upstream });

  const sweep = async () => {
    for (const { name, run } of sweeps)
      for (let pass = 0; ; pass++) {
        if (pass === mostPasses) throw new Error(`${name} always finds more`);
        const { decided, more } = await run(now(clock));
        if (!(more ?? (decided > 0 && pass < passesOfUntold))) break;
      }
  };

  return {
    ...{ db, clock, services, upstream, agents, quiet },
    async tick() {
      await runs.recoverDead();
      await clock.advance(tickSeconds * 1000);
      await quiet();
      await agents.act();
      for (const { services } of replicas)
        await publishHeard(
          db,
          { replica_id: services.executor.replica_id, flushed_through: now(clock) },
          leaseSeconds,
          now(clock),
        );
      await sweep();
      await quiet();
    },
    async close() {
      await runs.shutdown();
      await quiet();
      await db.close();
      await database.drop();
    },
  };
}
