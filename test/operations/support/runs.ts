/**
 * The engine of the fixture. Every run has its own virtual engine and journal, so that a run can
 * crash alone. `recoverCrashed` continues crashed runs on the same journal, with an engine of the
 * other replica.
 */
import type { WorkflowId } from '../../../src/base/ids.ts';
import type { VirtualClock } from '../../../src/base/virtual-clock.ts';
import type { Engine, OperationDefinition, OperationRun } from '../../../src/engine/engine.ts';
import { createVirtualEngine, type VirtualEngine } from '../../../src/engine/virtual-engine.ts';
import { createVirtualStore, type VirtualStore } from '../../../src/engine/virtual-journal.ts';
import { engineListener } from '../../../src/operations/runtime/engine-listener.ts';
import type { OperationServices } from '../../../src/operations/runtime/services.ts';
import { type ArmedFault, crashHooks, type StepRecord, withFault } from './faults.ts';

/** A run with its fault and the steps that it has run so far. */
export interface WatchedRun extends OperationRun {
  armed: ArmedFault | undefined;
  records: StepRecord[];
}

export interface Replica {
  services: OperationServices;
  definitions: OperationDefinition[];
}

export interface Runs extends Engine {
  /** Lets the other replica take over the runs that crashed since the last call. */
  recoverCrashed(): Promise<void>;
}

interface Running {
  run: WatchedRun;
  store: VirtualStore;
  engine: VirtualEngine;
}

const keyOf = (workflow_id: string, attempt: number) => `${workflow_id}#${attempt}`;
const [firstExecutor, secondExecutor] = ['first', 'second'];

export function createRuns(
  clock: VirtualClock,
  replicas: [Replica, Replica],
  /** Called once before a run executes; returns the fault of the run. */
  findFault: (run: OperationRun) => Promise<ArmedFault | undefined>,
  onRun: (run: WatchedRun) => void,
): Runs {
  const running = new Map<string, Running>();
  const crashedRuns: Running[] = [];
  const definitions = new Map(replicas[0].definitions.map((definition) => [definition.kind, definition]));

  const openEngine = async (run: WatchedRun, store: VirtualStore, executor_id: string): Promise<VirtualEngine> => {
    const { services, definitions } = executor_id === firstExecutor ? replicas[0] : replicas[1];
    const hooks = crashHooks(
      () => run.armed,
      () => crashedRuns.push({ run, store, engine }),
    );
    const faults = {
      ...hooks,
      before(crashing: OperationRun, step: string, tryNumber: number) {
        if (step.startsWith('engine:')) run.records.push({ step });
        return hooks.before?.(crashing, step, tryNumber);
      },
    };
    const engine = createVirtualEngine({ clock, listener: engineListener(() => services), faults, executor_id, store });
    for (const definition of definitions.filter(({ kind }) => kind === run.kind))
      engine.register({
        ...definition,
        run: (context, params) =>
          definition.run(
            withFault(context, run.armed, run.records, () => clock.nowMs()),
            params,
          ),
      });
    await engine.launch();
    return engine;
  };

  return {
    register: () => {},
    registered: () => replicas[0].definitions,
    launch: async () => {},
    async start(run) {
      const key = keyOf(run.workflow_id, run.attempt);
      if (running.has(key)) return;
      if (!definitions.has(run.kind)) throw new Error(`no operation ${run.kind} is registered`);
      const watchedRun: WatchedRun = { ...run, armed: await findFault(run), records: [] };
      onRun(watchedRun);
      const store = createVirtualStore();
      const engine = await openEngine(watchedRun, store, firstExecutor);
      running.set(key, { run: watchedRun, store, engine });
      await engine.start(run);
    },
    async recoverCrashed() {
      for (const { run, store } of crashedRuns.splice(0)) {
        const engine = await openEngine(run, store, secondExecutor);
        running.set(keyOf(run.workflow_id, run.attempt), { run, store, engine });
        await engine.recover([firstExecutor]);
      }
    },
    async wake(workflow_id, attempt) {
      await running.get(keyOf(workflow_id, attempt))?.engine.wake(workflow_id as WorkflowId, attempt);
    },
    cancel: async (workflow_id, attempt) =>
      (await running.get(keyOf(workflow_id, attempt))?.engine.cancel(workflow_id, attempt)) ?? false,
    executorsWithRuns: async () => [],
    recover: async () => 0,
    collectFinished: async () => 0,
    async shutdown() {
      for (const { engine } of running.values()) engine.crash();
    },
  };
}
