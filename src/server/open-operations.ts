/**
 * Opens the parts that change machines: drivers, the engine with its operations, and the sweeps.
 */
import { join } from 'node:path';
import { now, secondsLater } from '../base/clock.ts';
import { openKeyRing } from '../base/credentials/key-ring.ts';
import { newReplicaId } from '../base/ids.ts';
import { hostIdentity, isProcessAlive } from '../base/network/host.ts';
import { readPublicAuthority } from '../base/network/public-authority.ts';
import { createLatencies } from '../base/telemetry/latencies.ts';
import { openTracer } from '../base/telemetry/open-tracer.ts';
import { createDbosEngine } from '../engine/dbos-engine.ts';
import { operationRegistry } from '../operations/registry.ts';
import { engineListener, measuringListener } from '../operations/runtime/engine-listener.ts';
import type { OperationServices } from '../operations/runtime/services.ts';
import { describeAnswer } from '../probe/http-probe.ts';
import { probeMany } from '../probe/probe-many.ts';
import { createHeartbeatBuffer } from '../store/heartbeats/heartbeat-buffer.ts';
import { listCancelling } from '../store/operations/executions.ts';
import { endReplica, leaseSeconds, listOtherAddresses, registerReplica } from '../store/operations/replicas.ts';
import { GrantedPool } from '../store/pg/connections/granted-pool.ts';
import { StoreUnavailable } from '../store/pg/database.ts';
import { defaultEnvironment, type TransitionEnvironment } from '../store/transitions/transition-rules.ts';
import { sweepRegistry } from '../sweeps/registry.ts';
import { createOperationWaker } from '../sweeps/runner/operation-waker.ts';
import { createRefusals } from '../sweeps/runner/refusals.ts';
import { createSweepRunner } from '../sweeps/runner/runner.ts';
import type { SweepServices } from '../sweeps/runner/services.ts';
import { createSuspects } from '../sweeps/runner/suspects.ts';
import { openIngestWatch } from '../sweeps/watchers/ingest-watch.ts';
import { openDrivers } from './open-drivers.ts';
import type { OpenedStore } from './open-store.ts';
import { builtFiles, type Opening } from './opening.ts';
import { scheduleBackups } from './scheduled-backups.ts';
import { splitConnections } from './split-connections.ts';

async function openReplica({ version, parts }: Opening, { db, clock }: OpenedStore, host: string) {
  const executor = await registerReplica(db, {
    replica_id: newReplicaId(clock),
    host,
    pid: process.pid,
    address: '',
    version,
    started_at: now(clock),
    lease_until: secondsLater(now(clock), leaseSeconds),
  });
  parts.defer(() => endReplica(db, executor.replica_id, now(clock)));
  return executor;
}

export async function openOperations(opening: Opening, store: OpenedStore, server_url: () => string) {
  const { log, parts, onError, composition, version, redact } = opening;
  const { db, watch, clock, installation, tail, restoration } = store;
  const host = hostIdentity();
  const executor = await openReplica(opening, store, host);
  const { replica_id } = executor;
  const { settings, data_dir } = opening;
  const drivers = openDrivers({
    settings,
    log,
    data_dir,
    db,
    clock,
    installation,
    agent_bundle: builtFiles.agent_bundle,
  });
  const tracer = await openTracer({
    endpoint: opening.settings.otlp_endpoint,
    headers: opening.settings.otlp_headers,
    version,
    replica_id,
    clock,
    log,
    redact,
  });
  parts.defer(async () => tracer?.stop());
  const latencies = createLatencies();
  const environment: TransitionEnvironment = { ...defaultEnvironment, ...opening.file };
  const services: OperationServices = {
    db,
    clock,
    environment: composition.environment?.(environment) ?? environment,
    installation,
    key_ring: openKeyRing(settings.key_file ?? join(data_dir, 'keys.json'), clock),
    executor,
    drivers: composition.drivers?.(drivers, clock) ?? drivers,
    server_url,
    public_ca: await readPublicAuthority(opening.settings),
    otlp_endpoint: opening.settings.otlp_endpoint,
    other_server_urls: () => listOtherAddresses(db, executor.replica_id, now(clock)),
    probe: async (target) => {
      const [answer] = await probeMany([target], { clock });
      if (!answer) throw new Error('the probe returned no answer');
      return { ok: answer.ok, detail: describeAnswer(answer), ...(!answer.ok && { because: answer.because }) };
    },
    cancelRun: async (workflow_id, attempt) => {
      await engine.cancel(workflow_id, attempt);
    },
  };
  const engine = createDbosEngine({
    connectionString: store.owner_url,
    clock,
    executor_id: executor.replica_id,
    listener: measuringListener(
      engineListener(() => services),
      { tracer, latencies, db },
    ),
    pool_size: splitConnections(settings.database_connections).engine,
    log,
    store: {
      Client: watch.Client,
      openPool: (config) => new GrantedPool(config),
      isUnavailable: (error) => error instanceof StoreUnavailable,
      unavailableMs: () => watch.awayMs(),
      onRecovery: (listener) => watch.whenBack(listener),
    },
  });
  for (const definition of operationRegistry(services)) engine.register(definition);
  parts.defer(() => engine.shutdown());

  const beats = createHeartbeatBuffer(db, clock, onError('heartbeats were not stored; retrying'));
  parts.defer(() => beats.stop());
  let clockStep: { seconds: number; at: Date } | null = null;
  const ingest = await openIngestWatch({
    db,
    executor,
    clock,
    flushedThrough: () => beats.flushedThrough(),
    onClockJump(seconds) {
      clockStep = { seconds, at: now(clock) };
      log.warn({ seconds }, 'the clock of the database jumped; this replica follows it');
    },
  });
  tail.whenHistoryChanged(() => ingest.hold());
  tail.whenHistoryChanged(({ lost }) => {
    if (lost) void engine.repeatRuns();
  });
  restoration.whenEnded(() => ingest.hold());
  const refusals = createRefusals();
  tail.subscribe((fact) => refusals.observe(fact));
  const { promise: declaredDead, resolve: onDeclaredDead } = Promise.withResolvers<Error>();
  const { promise: notActing, resolve: onNotActing } = Promise.withResolvers<Error>();
  const sweepServices: SweepServices = {
    ...services,
    engine,
    host,
    ingest,
    restoration,
    suspects: createSuspects(db, ingest),
    refusals,
    log,
    isProcessAlive,
    onDeclaredDead,
  };
  const registry = sweepRegistry(sweepServices);
  const runner = createSweepRunner({
    sweeps: composition.sweeps?.(registry, sweepServices) ?? registry,
    clock,
    isObserving: restoration.isObserving,
    onError: (name, error) => log.error({ error, sweep: name }, 'a sweep failed and will run again'),
  });
  parts.defer(() => runner.stop());
  const notWoken = onError('an operation was not woken; it will poll instead');
  tail.subscribe(createOperationWaker(db, engine, executor.replica_id, notWoken));
  tail.subscribe((fact) => runner.observe(fact));
  let isLeaving = false;
  /** Call this only when no restoration is open: a launched engine continues its runs at once. */
  const startActing = async () => {
    await engine.launch();
    for (const { workflow_id, attempt } of await listCancelling(db)) await engine.cancel(workflow_id, attempt);
    runner.resume();
  };
  restoration.whenEnded(() => {
    if (isLeaving) return;
    startActing().catch((error: unknown) => onNotActing(error instanceof Error ? error : new Error(String(error))));
  });
  if (!restoration.isObserving()) await engine.launch();
  /** Gives the operations to the other replicas. */
  const handOver = async () => {
    isLeaving = true;
    await engine.halt();
    // These sweeps act for this replica: one renews its lease, the other starts operations here.
    // Any other may take long, and would delay the hand-over until the lease expires.
    await runner.stop(['replica-takeover', 'operation-start']);
    await endReplica(db, replica_id, now(clock));
  };
  const backups =
    settings.backups &&
    scheduleBackups({
      schedule: settings.backups,
      url: store.owner_url,
      installation_id: installation.installation_id,
      key_ring: services.key_ring,
      clock,
      isPaused: restoration.isObserving,
      log,
    });
  parts.defer(async () => backups?.stop());
  return {
    services,
    tracer,
    latencies,
    runner,
    beats,
    ingest,
    backups,
    lost: Promise.race([declaredDead, notActing]),
    handOver,
    clockStep: () => clockStep,
  };
}

export type Operating = Awaited<ReturnType<typeof openOperations>>;
