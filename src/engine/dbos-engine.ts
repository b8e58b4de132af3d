/**
 * The engine on DBOS Transact, with its tables in schema `dbos` of our database. This file starts,
 * wakes, cancels and recovers runs; `execute-run.ts` executes one. DBOS keeps global state, so a
 * process can launch only one engine at a time.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { DBOS, Error as DbosErrors } from '@dbos-inc/dbos-sdk';
import { DBOSExecutor } from '@dbos-inc/dbos-sdk/internal/dbos-executor';
import { retriablePostgresException } from '@dbos-inc/dbos-sdk/internal/system_database';
import { dbRetryConfig, INTERNAL_QUEUE_NAME } from '@dbos-inc/dbos-sdk/internal/utils';
import { wfQueueRunner } from '@dbos-inc/dbos-sdk/internal/wfqueue';
import { Client, Pool, type PoolConfig } from 'pg';
import { createBatcher } from '../base/batching/batch.ts';
import { type Clock, pause } from '../base/clock.ts';
import { createDbosJournal } from './dbos-journal.ts';
import { dbosLogger } from './dbos-logger.ts';
import {
  checkMessagesSent,
  hasUnreadMessage,
  listExecutorsWithRuns,
  listRunsFinishedBefore,
  prepareStatements,
  returnToQueue,
  withLaunchLock,
} from './dbos-tables.ts';
import type { Engine, EngineListener, OperationDefinition, OperationRun } from './engine.ts';
import type { EngineLog } from './engine-log.ts';
import { executeRun } from './execute-run.ts';
import { JournalUnavailable } from './run-journal.ts';
import { identity, type StoreAvailability } from './tries.ts';

export interface DbosEngineOptions {
  connectionString: string;
  clock: Clock;
  /** Unique per process, so that the runs of a dead process can be found. */
  executor_id: string;
  listener: EngineListener;
  log: EngineLog;
  pool_size?: number;
  random?: () => number;
  /**
   * Shows when the store is unavailable, so that an outage costs a step no try. Without it, a step
   * that fails because of an outage uses up a try.
   */
  store?: StoreAvailability & {
    Client: typeof Client;
    openPool?(config: PoolConfig & { max: number }): Pool;
    onRecovery(listener: () => void): void;
  };
}

type Workflow = (run: OperationRun) => Promise<void>;

/**
 * DBOS recovers only runs of the same application version. The version is constant, because a
 * replica may take over any run whose operation revision it has registered.
 */
const applicationVersion = 'slipway';
/**
 * DBOS uses our connection pool, so it only validates and logs this URL. The real URL is not
 * passed, because DBOS rejects some URLs that PostgreSQL accepts.
 */
const placeholderUrl = 'postgresql://slipway@given.pool/slipway';
/**
 * Effectively unlimited. A run that repeatedly crashes its replica is ended by its deadline; DBOS
 * must not stop recovering it.
 */
const maxRecoveryAttempts = 1_000_000;
const cancelKey = 'cancel';
const collectBatch = 500;
const returnPauseMs = 1_000;
const connectTimeoutMs = 20_000;
/**
 * By default DBOS backs off for up to 60 s, so runs paused for up to a minute after the database
 * was back. With these values DBOS retries within 1.5 s. The pool size limits the concurrent
 * retries.
 */
const storeRetry = { initialBackoffSec: 0.25, maxBackoffSec: 1 };
/**
 * By default DBOS looks every second for queues in the database and for delayed runs. We use
 * neither. Recovered runs wait in the internal queue, which DBOS still polls every second.
 */
const rareMaintenance = { reconcileIntervalMs: 60_000, transitionIntervalMs: 60_000 };

let launchedExecutor: string | undefined;

/**
 * Runs a call outside the async context of the calling workflow; otherwise DBOS would record the
 * call as a step of that workflow.
 */
const outsideWorkflows = AsyncLocalStorage.snapshot();

const workflowName = (of: { kind: string; revision: number }) => `${of.kind}@${of.revision}`;
const dbosId = (workflow_id: string, attempt: number) => `${workflow_id}#${attempt}`;

export interface DbosEngine extends Engine {
  /**
   * Stops all runs on this replica before their next step, so that another replica can recover
   * them, and takes no recovered run from the queue. Wakes and cancels still work until the
   * shutdown.
   */
  halt(): Promise<void>;
  /**
   * Executes the unfinished runs of this replica again, from their records. Call this after the
   * store lost commits: a run may have ended here, and its end may be lost. Retries until the
   * store answers. Returns the number of runs.
   */
  repeatRuns(): Promise<number>;
}

export function createDbosEngine(options: DbosEngineOptions): DbosEngine {
  const { clock, executor_id, listener, log, random = Math.random } = options;
  const definitions = new Map<string, OperationDefinition>();
  const workflows = new Map<string, Workflow>();
  const stop = new AbortController();
  Object.assign(dbRetryConfig, storeRetry);
  Object.assign(wfQueueRunner.constructor, rareMaintenance);
  const openPool = options.store?.openPool ?? ((config: PoolConfig) => new Pool(config));
  const pool = openPool({
    Client: options.store?.Client ?? Client,
    connectionString: options.connectionString,
    max: options.pool_size ?? 10,
    application_name: 'slipway-engine',
    connectionTimeoutMillis: connectTimeoutMs,
    // If a replica freezes inside a transaction, PostgreSQL ends the transaction before another
    // replica takes over.
    idle_in_transaction_session_timeout: 8_000,
  });
  // The error of a connection in use is ignored, because its statement fails too.
  pool.on('connect', (client) => {
    client.on('error', () => {});
    prepareStatements(client);
  });
  // During shutdown the database may close a connection before we do.
  pool.on('error', (error) => {
    if (!stop.signal.aborted) log.warn({ err: error }, 'an idle engine connection failed');
  });

  /** Every step checks whether its run was cancelled, so concurrent checks share one statement. */
  const checkCancels = (ids: string[]) =>
    checkMessagesSent(pool, ids, cancelKey).catch((cause) => {
      throw retriablePostgresException(cause)
        ? new JournalUnavailable('could not check for a cancel', { cause })
        : cause;
    });
  const wasCancelSent = createBatcher(checkCancels, { max_keys: 500, max_concurrent: 2 });

  const returnRunLater = async (run: OperationRun, error: unknown) => {
    log.error({ ...identity(run), err: error }, 'the engine could not record a step; the run is returned to the queue');
    const id = dbosId(run.workflow_id, run.attempt);
    while (!stop.signal.aborted) {
      await pause(clock, returnPauseMs, stop.signal);
      try {
        await returnToQueue(pool, { executor_id, dbos_id: id }, INTERNAL_QUEUE_NAME);
        return;
      } catch (failure) {
        log.error({ ...identity(run), err: failure }, 'could not return a run to the queue yet');
      }
    }
  };

  const workflowOf =
    (definition: OperationDefinition): Workflow =>
    (run) => {
      const journal = createDbosJournal({
        dbos_id: dbosId(run.workflow_id, run.attempt),
        stopSignal: stop.signal,
        wasCancelSent,
        onTakeover: (error) => log.warn({ ...identity(run), err: error }, 'another executor took this run over'),
        onJournalFailure: (error) => void returnRunLater(run, error),
      });
      return executeRun(definition, { run, journal, listener, clock, log, random, store: options.store });
    };

  /** Returns whether the run exists. */
  const send = async (id: string, topic: 'wake' | 'cancel', key?: string): Promise<boolean> => {
    try {
      await outsideWorkflows(() => DBOS.send(id, topic, topic, key));
      return true;
    } catch (error) {
      if (error instanceof DbosErrors.DBOSNonExistentWorkflowError) return false;
      throw error;
    }
  };

  /** Sends no second wake while one is unread, because the unread one will cause a check anyway. */
  const wakeOnce = async (id: string): Promise<boolean> =>
    (await hasUnreadMessage(pool, id, 'wake')) || send(id, 'wake');

  // Notifications are lost while the store is unavailable, so all waiting runs check when the store
  // answers again.
  options.store?.onRecovery(() => {
    const waits = DBOSExecutor.globalInstance?.systemDatabase.notificationsMap;
    if (launchedExecutor !== executor_id || !waits) return;
    for (const key of [...waits.map.keys()]) waits.callCallbacks(key);
  });

  let isShutDown = false;
  const shutdown = async () => {
    if (isShutDown) return;
    isShutDown = true;
    stop.abort();
    if (launchedExecutor === executor_id) {
      await DBOS.shutdown({ workflowCompletionTimeoutMS: 0, deregister: true });
      launchedExecutor = undefined;
    }
    await pool.end();
  };

  return {
    register(definition) {
      const name = workflowName(definition);
      if (launchedExecutor === executor_id)
        throw new Error(`operation ${name} must be registered before the engine launches`);
      if (definitions.has(name)) throw new Error(`operation ${name} is registered twice`);
      definitions.set(name, definition);
    },

    registered: () => [...definitions.values()].map(({ kind, revision }) => ({ kind, revision })),

    async launch() {
      if (launchedExecutor !== undefined) {
        throw new Error(`a DBOS engine (${launchedExecutor}) is already launched in this process; shut it down first`);
      }
      if (stop.signal.aborted) throw new Error('this engine was shut down; create a new one');
      launchedExecutor = executor_id;
      for (const [name, definition] of definitions) {
        workflows.set(name, DBOS.registerWorkflow(workflowOf(definition), { name, maxRecoveryAttempts }));
      }
      DBOS.setConfig({
        name: 'slipway',
        systemDatabaseUrl: placeholderUrl,
        systemDatabasePool: pool,
        applicationVersion,
        executorID: executor_id,
        logger: dbosLogger(log, clock),
        enableOTLP: false,
        tracingEnabled: false,
      });
      try {
        await withLaunchLock(pool, clock, () => DBOS.launch());
      } catch (error) {
        await shutdown();
        throw error;
      }
    },

    async start(run) {
      const workflow = workflows.get(workflowName(run));
      if (!workflow) throw new Error(`no operation ${workflowName(run)} is registered with the engine`);
      const workflowID = dbosId(run.workflow_id, run.attempt);
      await outsideWorkflows(() => DBOS.startWorkflow(workflow, { workflowID })(run));
    },

    async wake(workflow_id, attempt) {
      await wakeOnce(dbosId(workflow_id, attempt));
    },

    async cancel(workflow_id, attempt) {
      const id = dbosId(workflow_id, attempt);
      // A sleep receives the cancel message itself. A `waitFor` is woken, and its next check finds
      // the cancel message.
      return (await send(id, 'cancel', cancelKey)) && (await wakeOnce(id));
    },

    executorsWithRuns: () => listExecutorsWithRuns(pool),

    async recover(deadExecutorIds) {
      // This replica is still executing its own runs, so they must not be recovered.
      const dead = deadExecutorIds.filter((id) => id !== executor_id);
      const handles = await DBOSExecutor.globalInstance?.recoverPendingWorkflows(dead);
      if (!handles) throw new Error('the engine is not launched');
      return handles.length;
    },

    async collectFinished(olderThanSeconds) {
      let collected = 0;
      for (;;) {
        const ids = await listRunsFinishedBefore(pool, clock.nowMs() - olderThanSeconds * 1000, collectBatch);
        if (ids.length > 0) await outsideWorkflows(() => DBOS.deleteWorkflows(ids));
        collected += ids.length;
        if (ids.length < collectBatch) return collected;
      }
    },

    async repeatRuns() {
      while (!stop.signal.aborted) {
        try {
          return await returnToQueue(pool, { executor_id, dbos_id: null }, INTERNAL_QUEUE_NAME);
        } catch (error) {
          log.warn({ err: error }, 'could not repeat the runs after lost commits yet; trying again');
        }
        await pause(clock, returnPauseMs, stop.signal);
      }
      return 0;
    },

    async halt() {
      stop.abort();
      // DBOS recovers a run through a queue that all replicas poll. A run taken by this replica
      // would not continue.
      if (launchedExecutor === executor_id) await DBOSExecutor.globalInstance?.deactivateEventReceivers();
    },

    shutdown,
  };
}
