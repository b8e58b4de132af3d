/** How often a driver is asked before a stage gives up. */
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

/** Tries a step as the engine does, without its waits. */
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

/** Answers one after the other, the last one for ever; a driver that is asked without end is stopped. */
function script(...answers: DriverOutcome[]) {
  let asked = 0;
  const call = async () => {
    if (++asked > 50)
      throw new StepFailed({ step: 'x', code: 'endless', owner_layer: 'x', message: 'x', tries: asked });
    return answers[Math.min(asked, answers.length) - 1] as DriverOutcome;
  };
  return { call, asked: () => asked };
}

test('what is begun anew by each try is begun no more often than its policy says', async () => {
  const { call, asked } = script(...Array.from({ length: 50 }, (_, i) => (i % 2 ? exits : runs)));
  const driven = drive(context, services, 'clean:driver', call, { policy, subject, begins_anew: true });
  await expect(driven).rejects.toMatchObject({ code: 'clean_failed', message: 'clean exited with code 3' });
  expect(asked()).toBe(2 * policy.tries);
});

test('one that works in the end is done, whatever failed before', async () => {
  const { call } = script(runs, exits, runs, exits, runs, done);
  const driven = drive(context, services, 'clean:driver', call, { policy, subject, begins_anew: true });
  await expect(driven).resolves.toMatchObject(done);
});

test('where only looking failed, each round has its own tries', async () => {
  const { call } = script(...Array.from({ length: 20 }, (_, i) => (i % 2 ? exits : runs)), done);
  await expect(drive(context, services, 'launch:ensure', call, { policy, subject })).resolves.toMatchObject(done);
});

test('a long wait is cut short when what it is for is over', async () => {
  const { call, asked } = script({ ...runs, retry_seconds: 3600 }, { ...exits, retryable: false });
  const rested: unknown[] = [];
  const watched = {
    ...context,
    sleep: async (seconds: number) => rested.push(seconds),
    waitFor: async (_: string, look: () => Promise<unknown>, { until }: { until: Date }) =>
      rested.push({ over: await look(), until: until.getTime() }),
  } as unknown as OperationContext;
  const isOver = async () => true;
  await expect(drive(watched, services, 'launch:ensure', call, { policy, subject, isOver })).rejects.toThrow();
  expect(rested).toEqual([{ over: true, until: 3600 * 1000 }]);
  expect(asked()).toBe(2);
});

test('only what a provider put off is told as a try with a time; what is merely looked at again is not', async () => {
  const looks = { ...runs, retry_seconds: 10 };
  const { call } = script(looks, { ...looks, put_off: true, error: { code: 'away', owner_layer: 'provider' } }, done);
  const told: unknown[] = [];
  const heard = { ...context, emit: async (said: unknown) => told.push(said) } as unknown as OperationContext;
  await drive(heard, services, 'launch:ensure', call, { policy, subject });
  expect(told.map((said) => (said as { retry_after_seconds?: number }).retry_after_seconds)).toEqual([undefined, 10]);
});
