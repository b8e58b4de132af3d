/**
 * The faults of a step: crashes by the hooks of the journal, others by a wrapper around its work.
 */
import { type OperationContext, type OperationRun, StepError } from '../../../src/engine/engine.ts';
import { type Faults, SimulatedCrash } from '../../../src/engine/virtual-journal.ts';

export const faultNames = [
  'crash before',
  'crash after its effect',
  'fails until its retries end',
  'repeated',
] as const;
export type FaultName = (typeof faultNames)[number];

/** A step of an operation in a run without faults. */
export interface SeenStep {
  step: string;
  /** For a wait: whether its check ever returned a value. */
  wait?: { answered: boolean };
}

/** A fault on one step of one run. */
export interface Armed extends SeenStep {
  fault: FaultName;
  /** Whether it has happened. */
  reached: boolean;
  /** When a wait began to fail. */
  failing_ms?: number;
  /** Whether the last check of a wait returned a value. */
  answered?: boolean;
}

/** Longer than every budget of these pools, so that the rules decide meanwhile. */
const failingSeconds = 90;

/** Records of the engine itself can only be interrupted by a crash. */
export const canHaveFault = ({ step }: SeenStep, fault: FaultName): boolean =>
  fault.startsWith('crash') || !step.startsWith('engine:');

export function crashHooks(
  armedOf: (run: OperationRun) => Armed | undefined,
  onCrash: (run: OperationRun) => void,
): Faults {
  const dieAt = (run: OperationRun, step: string, fault: FaultName, due: (armed: Armed) => boolean) => {
    const armed = armedOf(run);
    if (!armed || armed.reached || armed.fault !== fault || armed.step !== step || !due(armed)) return;
    armed.reached = true;
    onCrash(run);
    throw new SimulatedCrash();
  };
  return {
    before: (run, step) => dieAt(run, step, 'crash before', () => true),
    // For a wait, the check that returns a value is the one with an effect.
    after: (run, step) =>
      dieAt(run, step, 'crash after its effect', (armed) => !armed.wait?.answered || armed.answered === true),
  };
}

const broken = () =>
  new StepError({
    code: 'injected',
    owner_layer: 'provider',
    message: 'this step fails in this test',
    retryable: true,
  });

/** Wraps a context with the fault of the armed step. Counts step names as the engine does. */
export function withFault(
  context: OperationContext,
  armed: Armed | undefined,
  seen: SeenStep[],
  nowMs: () => number,
): OperationContext {
  const uses = new Map<string, number>();
  const keyFor = (name: string) => {
    const use = (uses.get(name) ?? 0) + 1;
    uses.set(name, use);
    return use === 1 ? name : `${name}#${use}`;
  };
  return {
    ...context,
    step(name, work, policy) {
      const step = keyFor(name);
      seen.push({ step });
      return context.step(
        name,
        async (call) => {
          if (armed?.step !== step) return work(call);
          if (armed.fault === 'fails until its retries end') {
            armed.reached = true;
            throw broken();
          }
          if (armed.fault === 'repeated') {
            armed.reached = true;
            await work(call);
          }
          return work(call);
        },
        policy,
      );
    },
    waitFor(name, check, options) {
      const step = keyFor(name);
      const entry = { step, wait: { answered: false } };
      seen.push(entry);
      return context.waitFor(
        name,
        async () => {
          if (armed?.step === step && armed.fault === 'fails until its retries end') {
            armed.reached = true;
            armed.failing_ms ??= nowMs();
            if (nowMs() - armed.failing_ms < failingSeconds * 1000) throw broken();
          }
          if (armed?.step === step && armed.fault === 'repeated') {
            armed.reached = true;
            await check();
          }
          const answer = await check();
          if (answer !== undefined) {
            entry.wait.answered = true;
            if (armed?.step === step) armed.answered = true;
          }
          return answer;
        },
        options,
      );
    },
  };
}
