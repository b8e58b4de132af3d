/** The interface between an adapter and the conformance suite, and helpers that the tests share. */
import { randomBytes } from 'node:crypto';
import type { WorkflowId } from '../../base/ids.ts';
import type { Engine, EngineListener, Json, OperationContext, OperationRun, RunOutcome } from '../engine.ts';

/** A launched engine, with control over its time. */
export interface EngineUnderTest {
  readonly engine: Engine;
  nowMs(): number;
  /** Lets this much time pass. */
  pass(seconds: number): Promise<void>;
  /** Lets time pass until `condition` is true; fails after a limit. */
  until(what: string, condition: () => boolean | Promise<boolean>): Promise<void>;
  /** Whether the end of this run is recorded, so that it does not run again after a crash. */
  finished(workflow_id: WorkflowId): Promise<boolean>;
  /**
   * Kills the engine and starts another one that takes over. Returns how many runs it took over.
   */
  crash(): Promise<number>;
  close(): Promise<void>;
}

export interface Adapter {
  name: string;
  /**
   * The unit of all durations in the tests. It is short enough for tests in real time, and long
   * enough that events keep their order on a busy machine.
   */
  unit_seconds: number;
  /**
   * How late the adapter may act, in units. Tests use it to distinguish "at once" from "at the
   * end".
   */
  slack_units: number;
  open(prepare: (engine: Engine) => void, listener: EngineListener): Promise<EngineUnderTest>;
}

export type StepReport = { step: string; try: number; status: string; code?: string };

/** A run of an operation that the test defines, and everything the engine reported about it. */
export interface Scene {
  readonly system: EngineUnderTest;
  readonly workflow_id: WorkflowId;
  readonly kind: string;
  readonly steps: StepReport[];
  readonly emitted: Json[];
  readonly outcomes: RunOutcome[];
  readonly executions: number;
  start(): Promise<void>;
  /** Waits for `ended` and returns the outcome. */
  outcome(): Promise<RunOutcome>;
  secondsSince(startMs: number): number;
}

export type Operation = (context: OperationContext, params: Json) => Promise<Json | undefined>;

const openSystems: EngineUnderTest[] = [];

export async function closeAll(): Promise<void> {
  for (const system of openSystems.splice(0)) await system.close();
}

export async function scene(
  adapter: Adapter,
  run: Operation,
  override: Partial<EngineListener> & { later?: Operation; params?: Json } = {},
): Promise<Scene> {
  const steps: StepReport[] = [];
  const emitted: Json[] = [];
  const outcomes: RunOutcome[] = [];
  let executions = 0;
  const workflow_id = `op_${randomBytes(8).toString('hex')}` as WorkflowId;
  // The kind is unique, so that no later engine on the same database continues this test's runs.
  const kind = `probe-${workflow_id}`;
  const listener: EngineListener = {
    async executing(of) {
      await override.executing?.(of);
      executions++;
    },
    async stepStarted(of, step, tryNumber, waiting) {
      steps.push({ step, try: tryNumber, status: waiting ? 'waiting' : 'started' });
      await override.stepStarted?.(of, step, tryNumber, waiting);
    },
    async stepEnded(of, step, ended) {
      const code = ended.error?.code;
      steps.push({ step, try: ended.tries, status: ended.status, ...(code !== undefined && { code }) });
      await override.stepEnded?.(of, step, ended);
    },
    async emitted(of, progress) {
      await override.emitted?.(of, progress);
      emitted.push(progress);
    },
    async ended(of, outcome) {
      await override.ended?.(of, outcome);
      outcomes.push(outcome);
    },
  };
  const { later } = override;
  const system = await adapter.open((engine) => {
    engine.register({ kind, revision: 1, run });
    if (later) engine.register({ kind, revision: 2, run: later });
  }, listener);
  openSystems.push(system);
  const of: OperationRun = { workflow_id, attempt: 1, kind, revision: 1, params: override.params ?? null };
  return {
    system,
    workflow_id,
    kind,
    steps,
    emitted,
    outcomes,
    get executions() {
      return executions;
    },
    start: () => system.engine.start(of),
    async outcome() {
      await system.until('the run to end', () => outcomes.length > 0);
      return outcomes[0] ?? { status: 'cancelled' };
    },
    secondsSince: (startMs) => (system.nowMs() - startMs) / 1000,
  };
}

/** Blocks every caller of `pass` until `open` is called. `blocked` counts these callers. */
export function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  const state = { blocked: 0, open: resolve, pass: () => promise };
  state.pass = () => {
    state.blocked++;
    return promise;
  };
  return state;
}
