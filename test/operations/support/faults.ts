/** What can befall a step, and how it is brought about: by the journal's hooks where an execution dies, else around the step's own work. */
import { type OperationContext, type OperationRun, StepError } from '../../../src/engine/engine.ts';
import { type Faults, SimulatedCrash } from '../../../src/engine/virtual-journal.ts';

export const faultNames = [
  'crash before',
  'crash after its effect',
  'fails until its retries end',
  'repeated',
] as const;
export type FaultName = (typeof faultNames)[number];

/** A step of an operation as it was seen in an undisturbed run. */
export interface SeenStep {
  step: string;
  /** A wait, and whether its check ever answered. */
  wait?: { answered: boolean };
}

/** One fault, put on one step of one run. */
export interface Armed extends SeenStep {
  fault: FaultName;
  /** It has happened. */
  reached: boolean;
  /** Since when a wait fails. */
  failing_ms?: number;
  /** The check that was asked last has answered. */
  answered?: boolean;
}

/** Longer than every budget of the pools here, so that the rules decide on whatever waits for it. */
const failsForSeconds = 90;

/** Only what an operation does itself can fail or be repeated; the engine's own records can only be cut off. */
export const canBefall = ({ step }: SeenStep, fault: FaultName): boolean =>
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
    // Of a wait the check that answers is the one that may have done something.
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

/** The same context, with the fault around the step that is armed. Ordinals are counted as the engine counts them. */
export function disturbed(
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
            if (nowMs() - armed.failing_ms < failsForSeconds * 1000) throw broken();
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
