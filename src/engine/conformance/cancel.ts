/** Conformance tests for cancel: the first unshielded wait or step after a cancel throws, once. */
import { describe, expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { OperationCancelled, type OperationContext } from '../engine.ts';
import { type Adapter, gate, scene } from './harness.ts';

export function cancelConforms(adapter: Adapter): void {
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
        const it = await scene(adapter, async (context) => {
          await context.step('ready', async () => {
            ready = true;
          });
          await wait(context, it.system.nowMs());
          return 'not reached';
        });
        await it.start();
        await it.system.until('the wait', () => ready);
        const startMs = it.system.nowMs();
        expect(await it.system.engine.cancel(it.workflow_id, 1)).toBe(true);
        expect(await it.outcome()).toEqual({ status: 'cancelled' });
        expect(it.secondsSince(startMs)).toBeLessThan(slack_units * unit);
      });
    }

    test('during a step takes effect before the next step starts', async () => {
      const stepGate = gate();
      let reached = false;
      const it = await scene(adapter, async (context) => {
        await context.step('hold', stepGate.pass);
        await context.step('next', async () => {
          reached = true;
        });
        return null;
      });
      await it.start();
      await it.system.until('the step', () => stepGate.blocked === 1);
      await it.system.engine.cancel(it.workflow_id, 1);
      stepGate.open();
      expect(await it.outcome()).toEqual({ status: 'cancelled' });
      expect(reached).toBe(false);
      expect(it.steps.some((report) => report.step === 'next')).toBe(false);
    });

    test('is thrown only once, so the operation can clean up with steps, sleeps and waits', async () => {
      const cleanups: string[] = [];
      const it = await scene(adapter, async (context) => {
        try {
          await context.sleep(farUnits * unit);
        } catch (error) {
          if (!(error instanceof OperationCancelled)) throw error;
          await context.step('tidy', async () => void cleanups.push('step'));
          await context.sleep(unit / 2);
          cleanups.push(String(await context.cancelled()));
          const until = moment(it.system.nowMs() + farUnits * unit * 1000);
          await context.waitFor('gone', async () => 'gone', { until, poll_seconds: unit });
          cleanups.push('waits');
          throw error;
        }
        return 'not reached';
      });
      await it.start();
      await it.system.until('the run to execute', () => it.executions === 1);
      await it.system.engine.cancel(it.workflow_id, 1);
      expect(await it.outcome()).toEqual({ status: 'cancelled' });
      expect(cleanups).toEqual(['step', 'true', 'waits']);
    });

    test('takes effect after a shielded wait', async () => {
      let checks = 0;
      let isThere = false;
      let reached = false;
      const it = await scene(adapter, async (context) => {
        const until = moment(it.system.nowMs() + farUnits * unit * 1000);
        const check = async () => (++checks && isThere ? 'there' : undefined);
        await context.waitFor('shielded', check, { until, poll_seconds: farUnits * unit, shielded: true });
        reached = true;
        await context.step('next', async () => null);
        return 'not reached';
      });
      await it.start();
      await it.system.until('the first check', () => checks === 1);
      await it.system.engine.cancel(it.workflow_id, 1);
      await it.system.until('the check that the cancel causes', () => checks === 2);
      expect(it.outcomes).toEqual([]);
      isThere = true;
      await it.system.engine.wake(it.workflow_id, 1);
      expect(await it.outcome()).toEqual({ status: 'cancelled' });
      expect(reached).toBe(true);
      expect(it.steps.some((report) => report.step === 'next')).toBe(false);
    });

    test('is not thrown once `cancelled` has returned true', async () => {
      const stepGate = gate();
      const it = await scene(adapter, async (context) => {
        const before = await context.cancelled();
        await context.step('hold', stepGate.pass);
        const after = await context.cancelled();
        const stepped = await context.step('still-works', async () => true);
        return { before, after, stepped };
      });
      await it.start();
      await it.system.until('the step', () => stepGate.blocked === 1);
      await it.system.engine.cancel(it.workflow_id, 1);
      await it.system.engine.cancel(it.workflow_id, 1);
      stepGate.open();
      expect(await it.outcome()).toEqual({
        status: 'succeeded',
        result: { before: false, after: true, stepped: true },
      });
    });

    test('returns false for an unknown run', async () => {
      const it = await scene(adapter, async () => null);
      expect(await it.system.engine.cancel(it.workflow_id, 1)).toBe(false);
      await it.start();
      expect(await it.outcome()).toMatchObject({ status: 'succeeded' });
    });
  });
}
