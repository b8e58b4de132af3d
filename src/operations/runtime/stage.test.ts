/** Tests how often `drive` calls a driver before a stage fails, and what it reports meanwhile. */
import { expect, test, vi } from 'vitest';
import type { DriverOutcome } from '../../drivers/driver.ts';
import { type OperationContext, type RetryPolicy, StepFailed } from '../../engine/engine.ts';
import { classify } from '../../engine/retry.ts';
import type { OperationServices } from './services.ts';
import { type DriveOptions, drive } from './stage.ts';

vi.mock(import('../../store/evidence/evidence.ts'), async (original) => ({
  ...(await original()),
  recordEvidence: async () => {},
}));
vi.mock(import('../../store/operations/operations.ts'), async (original) => ({
  ...(await original()),
  readOperationRow: async () => undefined,
}));

const services = { clock: { nowMs: () => 0 }, db: {} } as unknown as OperationServices;
const subject = { node_instance_id: 'inst_1', ids: {} } as unknown as DriveOptions['subject'];
const policy: RetryPolicy = { tries: 3, base_seconds: 1, max_seconds: 900 };

/** Retries a step as the engine does, without its pauses. */
const context = {
  workflow_id: 'op_1',
  async step(step: string, work: (call: { try: number; step: string }) => unknown, { tries }: RetryPolicy) {
    for (let number = 1; ; number++) {
      try {
        return await work({ try: number, step });
      } catch (error) {
        const verdict = classify(error);
        if (verdict.kind === 'cancelled') throw error;
        if (verdict.kind === 'final' || number >= tries)
          throw new StepFailed({ step, tries: number, ...verdict.problem });
      }
    }
  },
  emit: async () => {},
  sleep: async () => {},
} as unknown as OperationContext;

const waiting: DriverOutcome = { outcome: 'wait', retry_seconds: 0.1, message: 'clean has started' };
const failed: DriverOutcome = {
  ...{ outcome: 'failed', owner_layer: 'node', code: 'clean_failed', retryable: true },
  message: 'clean exited with code 3',
};
const done: DriverOutcome = { outcome: 'done', message: 'cleaned' };

/**
 * A driver call that returns the answers in turn and repeats the last one. Throws after 50 calls to
 * stop an endless loop.
 */
function script(...answers: DriverOutcome[]) {
  let count = 0;
  const call = async () => {
    if (++count > 50)
      throw new StepFailed({ step: 'x', code: 'endless', owner_layer: 'x', message: 'x', tries: count });
    return answers[Math.min(count, answers.length) - 1] as DriverOutcome;
  };
  return { call, calls: () => count };
}

test('with `restarts_work`, fails after the tries of the policy, counted over all rounds', async () => {
  const { call, calls } = script(...Array.from({ length: 50 }, (_, i) => (i % 2 ? failed : waiting)));
  const outcome = drive(context, services, 'clean:driver', call, { policy, subject, restarts_work: true });
  await expect(outcome).rejects.toMatchObject({ code: 'clean_failed', message: 'clean exited with code 3' });
  expect(calls()).toBe(2 * policy.tries);
});

test('with `restarts_work`, is done when a later try succeeds', async () => {
  const { call } = script(waiting, failed, waiting, failed, waiting, done);
  const outcome = drive(context, services, 'clean:driver', call, { policy, subject, restarts_work: true });
  await expect(outcome).resolves.toMatchObject(done);
});

test('without `restarts_work`, each round has its own tries', async () => {
  const { call } = script(...Array.from({ length: 20 }, (_, i) => (i % 2 ? failed : waiting)), done);
  await expect(drive(context, services, 'launch:ensure', call, { policy, subject })).resolves.toMatchObject(done);
});

test('a long wait is polled, and ends early when `shouldStop` returns true', async () => {
  const { call, calls } = script({ ...waiting, retry_seconds: 3600 }, { ...failed, retryable: false });
  const waits: unknown[] = [];
  const recordingContext = {
    ...context,
    sleep: async (seconds: number) => waits.push(seconds),
    waitFor: async (_: string, poll: () => Promise<unknown>, { until }: { until: Date }) =>
      waits.push({ result: await poll(), until: until.getTime() }),
  } as unknown as OperationContext;
  const shouldStop = async () => true;
  await expect(
    drive(recordingContext, services, 'launch:ensure', call, { policy, subject, shouldStop }),
  ).rejects.toThrow();
  expect(waits).toEqual([{ result: true, until: 3600 * 1000 }]);
  expect(calls()).toBe(2);
});

test('reports a retry time only if the provider put the work off', async () => {
  const shortWait = { ...waiting, retry_seconds: 10 };
  const { call } = script(
    shortWait,
    { ...shortWait, put_off: true, error: { code: 'away', owner_layer: 'provider' } },
    done,
  );
  const emitted: unknown[] = [];
  const recordingContext = {
    ...context,
    emit: async (progress: unknown) => emitted.push(progress),
  } as unknown as OperationContext;
  await drive(recordingContext, services, 'launch:ensure', call, { policy, subject });
  expect(emitted.map((progress) => (progress as { retry_after_seconds?: number }).retry_after_seconds)).toEqual([
    undefined,
    10,
    undefined,
  ]);
});

const silent: DriverOutcome = {
  ...waiting,
  message: 'docker has not answered yet',
  error: { code: 'not_answered', owner_layer: 'provider' },
};
const silentError = { code: 'not_answered', owner_layer: 'provider', message: silent.message };

/** Returns the errors that a drive emits, in order. Undefined leaves the shown error unchanged. */
async function emittedErrors(answers: DriverOutcome[], options: Partial<DriveOptions> = {}): Promise<unknown[]> {
  const errors: unknown[] = [];
  const recordingContext = {
    ...context,
    emit: async (progress: unknown) => errors.push((progress as { error?: unknown }).error),
  } as unknown as OperationContext;
  await drive(recordingContext, services, 'stop:driver', script(...answers).call, { policy, subject, ...options });
  return errors;
}

test('an answer without an error clears the shown error, although it names no phase', async () => {
  expect(await emittedErrors([silent, waiting, silent, silent, done])).toEqual([
    silentError,
    null,
    silentError,
    silentError,
    null,
  ]);
});

test('a call that succeeds after a failed try clears the error of that try', async () => {
  expect(await emittedErrors([failed, done])).toEqual([null]);
  expect(await emittedErrors([waiting, done])).toEqual([null]);
  expect(await emittedErrors([done])).toEqual([]);
});

test('with `restarts_work`, work that started again keeps the error of its failed try', async () => {
  const answers = [waiting, failed, waiting, waiting, done];
  expect(await emittedErrors(answers, { restarts_work: true })).toEqual([null, undefined, undefined, null]);
});
