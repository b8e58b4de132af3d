/** Conformance tests for cancel: the first unshielded wait or step after a cancel throws, once. */
import { describe, expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { OperationCancelled, type OperationContext } from '../engine.ts';
import { type Adapter, gate, scene } from './harness.ts';

export function describeCancel(adapter: Adapter): void {
  const { unit_seconds: unit, slack_units } = adapter;
  const farUnits = 10 * slack_units;
  const longRetry = { base_seconds: farUnits * unit, max_seconds: farUnits * unit };

  /** Waits that are so long that only a cancel can end them before the test times out. */
  const waits: Record<string, (context: OperationContext, nowMs: number) => Promise<unknown>> = {
    'a sleep': (context) => context.sleep(farUnits * unit),
    'a wait': (context, nowMs) =>
      context.waitFor('never-there', async () => undefined, {
        until: moment(nowMs + farUnits * unit * 1000),
        poll_seconds: farUnits * unit,
      }),
    'the pause before a retry': (context) =>
      context.step('never-well', () => Promise.reject(new Error('not yet')), { tries: 5, ...longRetry }),
  };

  describe('cancel', () => {
    for (const [name, wait] of Object.entries(waits)) {
      test(`ends ${name} at once`, async () => {
        let ready = false;
        const testRun = await scene(adapter, async (context) => {
          await context.step('ready', async () => {
            ready = true;
          });
          await wait(context, testRun.system.nowMs());
          return 'not reached';
        });
        await testRun.start();
        await testRun.system.until('the wait', () => ready);
        const startMs = testRun.system.nowMs();
        expect(await testRun.system.engine.cancel(testRun.workflow_id, 1)).toBe(true);
        expect(await testRun.outcome()).toEqual({ status: 'cancelled' });
        expect(testRun.secondsSince(startMs)).toBeLessThan(slack_units * unit);
      });
    }

    test('during a step takes effect before the next step starts', async () => {
      const stepGate = gate();
      let reached = false;
      const testRun = await scene(adapter, async (context) => {
        await context.step('hold', stepGate.pass);
        await context.step('next', async () => {
          reached = true;
        });
        return null;
      });
      await testRun.start();
      await testRun.system.until('the step', () => stepGate.blocked === 1);
      await testRun.system.engine.cancel(testRun.workflow_id, 1);
      stepGate.open();
      expect(await testRun.outcome()).toEqual({ status: 'cancelled' });
      expect(reached).toBe(false);
      expect(testRun.steps.some((report) => report.step === 'next')).toBe(false);
    });

    test('is thrown only once, so the operation can clean up with steps, sleeps and waits', async () => {
      const cleanups: string[] = [];
      const testRun = await scene(adapter, async (context) => {
        try {
          await context.sleep(farUnits * unit);
        } catch (error) {
          if (!(error instanceof OperationCancelled)) throw error;
          await context.step('tidy', async () => void cleanups.push('step'));
          await context.sleep(unit / 2);
          cleanups.push(String(await context.isCancelled()));
          const until = moment(testRun.system.nowMs() + farUnits * unit * 1000);
          await context.waitFor('gone', async () => 'gone', { until, poll_seconds: unit });
          cleanups.push('waits');
          throw error;
        }
        return 'not reached';
      });
      await testRun.start();
      await testRun.system.until('the run to execute', () => testRun.executions === 1);
      await testRun.system.engine.cancel(testRun.workflow_id, 1);
      expect(await testRun.outcome()).toEqual({ status: 'cancelled' });
      expect(cleanups).toEqual(['step', 'true', 'waits']);
    });

    test('takes effect after a shielded wait', async () => {
      let checks = 0;
      let isThere = false;
      let reached = false;
      const testRun = await scene(adapter, async (context) => {
        const until = moment(testRun.system.nowMs() + farUnits * unit * 1000);
        const check = async () => (++checks && isThere ? 'there' : undefined);
        await context.waitFor('shielded', check, { until, poll_seconds: farUnits * unit, shielded: true });
        reached = true;
        await context.step('next', async () => null);
        return 'not reached';
      });
      await testRun.start();
      await testRun.system.until('the first check', () => checks === 1);
      await testRun.system.engine.cancel(testRun.workflow_id, 1);
      await testRun.system.until('the check that the cancel causes', () => checks === 2);
      expect(testRun.outcomes).toEqual([]);
      isThere = true;
      await testRun.system.engine.wake(testRun.workflow_id, 1);
      expect(await testRun.outcome()).toEqual({ status: 'cancelled' });
      expect(reached).toBe(true);
      expect(testRun.steps.some((report) => report.step === 'next')).toBe(false);
    });

    test('is not thrown once `isCancelled` has returned true', async () => {
      const stepGate = gate();
      const testRun = await scene(adapter, async (context) => {
        const before = await context.isCancelled();
        await context.step('hold', stepGate.pass);
        const after = await context.isCancelled();
        const stepped = await context.step('still-works', async () => true);
        return { before, after, stepped };
      });
      await testRun.start();
      await testRun.system.until('the step', () => stepGate.blocked === 1);
      await testRun.system.engine.cancel(testRun.workflow_id, 1);
      await testRun.system.engine.cancel(testRun.workflow_id, 1);
      stepGate.open();
      expect(await testRun.outcome()).toEqual({
        status: 'succeeded',
        result: { before: false, after: true, stepped: true },
      });
    });

    test('returns false for an unknown run', async () => {
      const testRun = await scene(adapter, async () => null);
      expect(await testRun.system.engine.cancel(testRun.workflow_id, 1)).toBe(false);
      await testRun.start();
      expect(await testRun.outcome()).toMatchObject({ status: 'succeeded' });
    });
  });
}
