/**
 * Injects faults into steps. Hooks of the journal inject crashes; a wrapper around the step's work
 * injects failures and repetitions.
 */
import { type OperationContext, type OperationRun, StepError } from '../../../src/engine/engine.ts';
import { type Faults, SimulatedCrash } from '../../../src/engine/virtual-journal.ts';

export const faultNames = [
  'crash before the step',
  'crash after the effect',
  'failures until the retries end',
  'repetition',
] as const;
export type FaultName = (typeof faultNames)[number];

/** A step that an operation ran. */
export interface StepRecord {
  step: string;
  /** Present if the step is a wait; says whether its check ever returned a value. */
  wait?: { answered: boolean };
}

/** A fault that is set for one step of one run. */
export interface ArmedFault extends StepRecord {
  fault: FaultName;
  faultHappened: boolean;
  /** The time at which a wait began to fail. */
  failing_ms?: number;
  /** Whether the last check of a wait returned a value. */
  answered?: boolean;
}

/** Longer than most budgets of these pools, so that the rules decide while a wait fails. */
const failingSeconds = 90;

/** A record of the engine itself can have no fault but a crash. */
export const canHaveFault = ({ step }: StepRecord, fault: FaultName): boolean =>
  fault.startsWith('crash') || !step.startsWith('engine:');

export function crashHooks(
  armedOf: (run: OperationRun) => ArmedFault | undefined,
  onCrash: (run: OperationRun) => void,
): Faults {
  const crashAt = (run: OperationRun, step: string, fault: FaultName, isDue: (armed: ArmedFault) => boolean) => {
    const armedFault = armedOf(run);
    if (
      !armedFault ||
      armedFault.faultHappened ||
      armedFault.fault !== fault ||
      armedFault.step !== step ||
      !isDue(armedFault)
    )
      return;
    armedFault.faultHappened = true;
    onCrash(run);
    throw new SimulatedCrash();
  };
  return {
    before: (run, step) => crashAt(run, step, 'crash before the step', () => true),
    // Only the check that returns a value has an effect, so a wait crashes after that check.
    after: (run, step) =>
      crashAt(run, step, 'crash after the effect', (armed) => !armed.wait?.answered || armed.answered === true),
  };
}

const injectedError = () =>
  new StepError({
    code: 'injected',
    owner_layer: 'provider',
    message: 'injected by the test',
    retryable: true,
  });

/**
 * Wraps a context with the fault, and records its steps. Numbers repeated names like the engine.
 */
export function withFault(
  context: OperationContext,
  armed: ArmedFault | undefined,
  records: StepRecord[],
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
      records.push({ step });
      return context.step(
        name,
        async (call) => {
          if (armed?.step !== step) return work(call);
          if (armed.fault === 'failures until the retries end') {
            armed.faultHappened = true;
            throw injectedError();
          }
          if (armed.fault === 'repetition') {
            armed.faultHappened = true;
            await work(call);
          }
          return work(call);
        },
        policy,
      );
    },
    waitFor(name, check, options) {
      const step = keyFor(name);
      const record = { step, wait: { answered: false } };
      records.push(record);
      return context.waitFor(
        name,
        async () => {
          if (armed?.step === step && armed.fault === 'failures until the retries end') {
            armed.faultHappened = true;
            armed.failing_ms ??= nowMs();
            if (nowMs() - armed.failing_ms < failingSeconds * 1000) throw injectedError();
          }
          if (armed?.step === step && armed.fault === 'repetition') {
            armed.faultHappened = true;
            await check();
          }
          const result = await check();
          if (result !== undefined) {
            record.wait.answered = true;
            if (armed?.step === step) armed.answered = true;
          }
          return result;
        },
        options,
      );
    },
  };
}
