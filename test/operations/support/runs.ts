/**
 * The engine of the workshop: every run has its own virtual engine and journal, so that one can
 * crash alone. `recoverDead` continues crashed runs on the same journal, by an engine of another
 * replica.
 */
import type { WorkflowId } from '../../../src/base/ids.ts';
import type { VirtualClock } from '../../../src/base/virtual-clock.ts';
import type { Engine, OperationDefinition, OperationRun } from '../../../src/engine/engine.ts';
import { createVirtualEngine, type VirtualEngine } from '../../../src/engine/virtual-engine.ts';
import { createVirtualStore, type VirtualStore } from '../../../src/engine/virtual-journal.ts';
import { engineListener } from '../../../src/operations/runtime/engine-listener.ts';
import type { OperationServices } from '../../../src/operations/runtime/services.ts';
import { type Armed, crashHooks, type SeenStep, withFault } from './faults.ts';

/** A run, its fault, and the steps that it took. */
export interface WatchedRun extends OperationRun {
  armed: Armed | undefined;
  seen: SeenStep[];
}

export interface Replica {
  services: OperationServices;
  definitions: OperationDefinition[];
}

export interface Runs extends Engine {
  /** Takes over the runs that crashed since the last call. */
  recoverDead(): Promise<void>;
}

interface Running {
  run: WatchedRun;
  store: VirtualStore;
  engine: VirtualEngine;
}

const keyOf = (workflow_id: string, attempt: number) => `${workflow_id}#${attempt}`;
const [first, second] = ['first', 'second'];

export function createRuns(
  clock: VirtualClock,
  replicas: [Replica, Replica],
  /** Called once before a run executes; returns its fault. */
  watch: (run: OperationRun) => Promise<Armed | undefined>,
  begun: (run: WatchedRun) => void,
): Runs {
  const running = new Map<string, Running>();
  const dead: Running[] = [];
  const definitions = new Map(replicas[0].definitions.map((each) => [each.kind, each]));

  const open = async (run: WatchedRun, store: VirtualStore, executor_id: string): Promise<VirtualEngine> => {
    const { services, definitions } = executor_id === first ? replicas[0] : replicas[1];
    const hooks = crashHooks(
      () => run.armed,
      () => dead.push({ run, store, engine }),
    );
    const faults = {
      ...hooks,
      before(of: OperationRun, step: string, tryNumber: number) {
        if (step.startsWith('engine:')) run.seen.push({ step });
        return hooks.before?.(of, step, tryNumber);
      },
    };
    const engine = createVirtualEngine({ clock, listener: engineListener(() => services), faults, executor_id, store });
    for (const definition of definitions.filter(({ kind }) => kind === run.kind))
      engine.register({
        ...definition,
        run: (context, params) =>
          definition.run(
            withFault(context, run.armed, run.seen, () => clock.nowMs()),
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
      const watched: WatchedRun = { ...run, armed: await watch(run), seen: [] };
      begun(watched);
      const store = createVirtualStore();
      const engine = await open(watched, store, first);
      running.set(key, { run: watched, store, engine });
      await engine.start(run);
    },
    async recoverDead() {
      for (const { run, store } of dead.splice(0)) {
        const engine = await open(run, store, second);
        running.set(keyOf(run.workflow_id, run.attempt), { run, store, engine });
        await engine.recover([first]);
      }
    },
    async wake(workflow_id, attempt) {
      await running.get(keyOf(workflow_id, attempt))?.engine.wake(workflow_id as WorkflowId, attempt);
    },
    cancel: async (workflow_id, attempt) =>
      (await running.get(keyOf(workflow_id, attempt))?.engine.cancel(workflow_id, attempt)) ?? false,
    executorsAtWork: async () => [],
    recover: async () => 0,
    collectFinished: async () => 0,
    async shutdown() {
      for (const { engine } of running.values()) engine.crash();
    },
  };
}
