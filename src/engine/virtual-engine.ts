/**
 * The engine in memory and on virtual time, for tests. It executes runs with the same code as the
 * DBOS engine, and its journal survives `crash`. A test can place a crash before or after any
 * effect.
 */
import type { VirtualClock } from '../base/virtual-clock.ts';
import type { Engine, EngineListener, OperationDefinition, OperationRun } from './engine.ts';
import { type EngineLog, silentLog } from './engine-log.ts';
import { executeRun } from './execute-run.ts';
import {
  createVirtualJournal,
  createVirtualStore,
  deliver,
  type Faults,
  type StoredRun,
  type VirtualStore,
} from './virtual-journal.ts';

export interface VirtualEngine extends Engine {
  /** Kills all executions. `launch` starts this replica again and continues its runs. */
  crash(): void;
}

export interface VirtualEngineOptions {
  clock: VirtualClock;
  listener: EngineListener;
  faults?: Faults;
  executor_id?: string;
  /** Shared by the engines of a simulated cluster. */
  store?: VirtualStore;
  log?: EngineLog;
  /** The source of jitter, derived from the simulation's seed. There is no jitter by default. */
  random?: () => number;
}

const definitionName = (of: { kind: string; revision: number }) => `${of.kind}@${of.revision}`;
const runId = (workflow_id: string, attempt: number) => `${workflow_id}#${attempt}`;

export function createVirtualEngine(options: VirtualEngineOptions): VirtualEngine {
  const { clock, listener, faults = {}, executor_id = 'virtual', log = silentLog, random = () => 0 } = options;
  const store = options.store ?? createVirtualStore();
  const definitions = new Map<string, OperationDefinition>();
  const executions = new Map<string, AbortController>();
  let isLaunched = false;

  const definitionOf = (run: OperationRun): OperationDefinition => {
    const definition = definitions.get(definitionName(run));
    if (!definition) throw new Error(`no operation ${definitionName(run)} is registered with the engine`);
    return definition;
  };

  const execute = async (id: string, stored: StoredRun) => {
    const execution = new AbortController();
    const owner = Symbol(executor_id);
    stored.owner = owner;
    stored.executor_id = executor_id;
    executions.set(id, execution);
    execution.signal.addEventListener('abort', () => executions.delete(id), { once: true });
    const journal = createVirtualJournal({ stored, owner, clock, faults, controller: execution });
    await executeRun(definitionOf(stored.run), { run: stored.run, journal, listener, clock, log, random });
    executions.delete(id);
    if (stored.owner === owner) stored.ended = true;
  };

  const takeOver = (deadExecutorIds: string[]): number => {
    const orphans = [...store].filter(
      ([id, stored]) => !stored.ended && !executions.has(id) && deadExecutorIds.includes(stored.executor_id),
    );
    for (const [id, stored] of orphans) void execute(id, stored);
    return orphans.length;
  };

  const crash = () => {
    isLaunched = false;
    for (const execution of [...executions.values()]) execution.abort();
  };

  return {
    register(definition) {
      const name = definitionName(definition);
      if (isLaunched) throw new Error(`operation ${name} must be registered before the engine launches`);
      if (definitions.has(name)) throw new Error(`operation ${name} is registered twice`);
      definitions.set(name, definition);
    },

    registered: () => [...definitions.values()].map(({ kind, revision }) => ({ kind, revision })),

    async launch() {
      isLaunched = true;
      takeOver([executor_id]);
    },

    async start(run) {
      if (!isLaunched) throw new Error('the engine is not launched');
      definitionOf(run);
      const id = runId(run.workflow_id, run.attempt);
      if (store.has(id)) return;
      const stored: StoredRun = {
        run: structuredClone(run),
        executor_id,
        owner: Symbol(executor_id),
        ended: false,
        entries: [],
        unread: new Set(),
        cancel_sent: false,
        listeners: new Set(),
      };
      store.set(id, stored);
      void execute(id, stored);
    },

    async wake(workflow_id, attempt) {
      const stored = store.get(runId(workflow_id, attempt));
      if (stored) deliver(stored, 'wake');
    },

    async cancel(workflow_id, attempt) {
      const stored = store.get(runId(workflow_id, attempt));
      if (!stored) return false;
      const sentBefore = stored.cancel_sent;
      stored.cancel_sent = true;
      if (!sentBefore) deliver(stored, 'cancel');
      deliver(stored, 'wake');
      return true;
    },

    async executorsWithRuns() {
      return [...new Set([...store.values()].filter(({ ended }) => !ended).map((stored) => stored.executor_id))];
    },

    async recover(deadExecutorIds) {
      if (!isLaunched) throw new Error('the engine is not launched');
      return takeOver(deadExecutorIds);
    },

    // Nothing is deleted, because a simulation may still query any run.
    collectFinished: async () => 0,

    crash,

    async shutdown() {
      crash();
    },
  };
}
