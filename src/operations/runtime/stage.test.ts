/** How often `drive` calls a driver before a stage fails. */
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
  operationRow: async () => undefined,
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
        const found = classify(error);
        if (found.kind === 'cancelled') throw error;
        if (found.kind === 'final' || number >= tries) throw new StepFailed({ step, tries: number, ...found.problem });
      }
    }
  },
  emit: async () => {},
  sleep: async () => {},
} as unknown as OperationContext;

const runs: DriverOutcome = { outcome: 'wait', retry_seconds: 0.1, message: 'clean has started' };
const exits: DriverOutcome = {
  ...{ outcome: 'failed', owner_layer: 'node', code: 'clean_failed', retryable: true },
  message: 'clean exited with code 3',
};
const done: DriverOutcome = { outcome: 'done', message: 'cleaned' };

/**
 * Returns the answers in turn and repeats the last one. Throws after 50 calls to stop an endless
 * loop.
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

test('counts tries over all rounds if each try starts the work again', async () => {
  const { call, calls } = script(...Array.from({ length: 50 }, (_, i) => (i % 2 ? exits : runs)));
  const driven = drive(context, services, 'clean:driver', call, { policy, subject, begins_anew: true });
  await expect(driven).rejects.toMatchObject({ code: 'clean_failed', message: 'clean exited with code 3' });
  expect(calls()).toBe(2 * policy.tries);
});

test('is done when a later try succeeds', async () => {
  const { call } = script(runs, exits, runs, exits, runs, done);
  const driven = drive(context, services, 'clean:driver', call, { policy, subject, begins_anew: true });
  await expect(driven).resolves.toMatchObject(done);
});

test('counts tries per round if only the inspection failed', async () => {
  const { call } = script(...Array.from({ length: 20 }, (_, i) => (i % 2 ? exits : runs)), done);
  await expect(drive(context, services, 'launch:ensure', call, { policy, subject })).resolves.toMatchObject(done);
});

test('ends a long wait when its purpose is over', async () => {
  const { call, calls } = script({ ...runs, retry_seconds: 3600 }, { ...exits, retryable: false });
  const waits: unknown[] = [];
  const watched = {
    ...context,
    sleep: async (seconds: number) => waits.push(seconds),
    waitFor: async (_: string, look: () => Promise<unknown>, { until }: { until: Date }) =>
      waits.push({ over: await look(), until: until.getTime() }),
  } as unknown as OperationContext;
  const isOver = async () => true;
  await expect(drive(watched, services, 'launch:ensure', call, { policy, subject, isOver })).rejects.toThrow();
  expect(waits).toEqual([{ over: true, until: 3600 * 1000 }]);
  expect(calls()).toBe(2);
});

test('reports a retry time only if the provider put the work off', async () => {
  const looks = { ...runs, retry_seconds: 10 };
  const { call } = script(looks, { ...looks, put_off: true, error: { code: 'away', owner_layer: 'provider' } }, done);
  const emitted: unknown[] = [];
  const observed = {
    ...context,
    emit: async (progress: unknown) => emitted.push(progress),
  } as unknown as OperationContext;
  await drive(observed, services, 'launch:ensure', call, { policy, subject });
  expect(emitted.map((progress) => (progress as { retry_after_seconds?: number }).retry_after_seconds)).toEqual([
    undefined,
    10,
  ]);
});
