/**
 * Conformance tests for waits: they check at once, at every wake and every poll, and end in time.
 */
import { describe, expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { StepError } from '../engine.ts';
import { type Adapter, gate, scene } from './harness.ts';

export function describeWaits(adapter: Adapter): void {
  const { unit_seconds: unit, slack_units } = adapter;
  const farUnits = 10 * slack_units;

  describe('waits', () => {
    test('a sleep lasts as long as requested', async () => {
      const testRun = await scene(adapter, async (context) => {
        await context.sleep(3 * unit);
        return null;
      });
      const startMs = testRun.system.nowMs();
      await testRun.start();
      await testRun.outcome();
      expect(testRun.secondsSince(startMs)).toBeGreaterThanOrEqual(3 * unit);
      expect(testRun.secondsSince(startMs)).toBeLessThan((3 + slack_units) * unit);
    });

    test('a wake does not shorten a sleep', async () => {
      let asleep = false;
      const testRun = await scene(adapter, async (context) => {
        await context.step('ready', async () => {
          asleep = true;
        });
        await context.sleep(4 * unit);
        return null;
      });
      await testRun.start();
      await testRun.system.until('the sleep', () => asleep);
      const startMs = testRun.system.nowMs();
      await testRun.system.engine.wake(testRun.workflow_id, 1);
      await testRun.outcome();
      expect(testRun.secondsSince(startMs)).toBeGreaterThan(3 * unit);
    });

    test('a wait checks at once', async () => {
      const testRun = await scene(adapter, (context) =>
        context.waitFor('there', async () => 'already', {
          until: moment(testRun.system.nowMs() + farUnits * unit * 1000),
          poll_seconds: farUnits * unit,
        }),
      );
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 'already' });
      expect(testRun.steps).toEqual([
        { step: 'there', try: 1, status: 'waiting' },
        { step: 'there', try: 1, status: 'done' },
      ]);
    });

    test('a wait checks again at every poll', async () => {
      let checks = 0;
      const testRun = await scene(adapter, (context) =>
        context.waitFor('there', async () => (++checks === 4 ? checks : undefined), {
          until: moment(testRun.system.nowMs() + farUnits * unit * 1000),
          poll_seconds: unit,
        }),
      );
      const startMs = testRun.system.nowMs();
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 4 });
      expect(testRun.secondsSince(startMs)).toBeGreaterThanOrEqual(3 * unit);
    });

    test('a wait that passes its deadline returns undefined, after a last check', async () => {
      const checkTimes: number[] = [];
      const testRun = await scene(adapter, async (context) => {
        const until = await context.step('until', async () => testRun.system.nowMs() + 3 * unit * 1000);
        const check = async () => void checkTimes.push(testRun.system.nowMs());
        const answer = await context.waitFor('there', check as () => Promise<undefined>, {
          until: moment(until),
          poll_seconds: 2 * unit,
        });
        return { answered: answer !== undefined, late: (checkTimes.at(-1) ?? 0) >= until };
      });
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: { answered: false, late: true } });
      // A busy machine may skip a check in the middle, but never the first or the last.
      expect(checkTimes.length).toBeGreaterThanOrEqual(2);
      expect(checkTimes.length).toBeLessThanOrEqual(5);
    });

    test('a wake makes a wait check again at once', async () => {
      let checks = 0;
      let there = false;
      const testRun = await scene(adapter, (context) =>
        context.waitFor('there', async () => (++checks && there ? checks : undefined), {
          until: moment(testRun.system.nowMs() + farUnits * unit * 1000),
          poll_seconds: farUnits * unit,
        }),
      );
      await testRun.start();
      await testRun.system.until('the first check', () => checks === 1);
      there = true;
      const startMs = testRun.system.nowMs();
      await testRun.system.engine.wake(testRun.workflow_id, 1);
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 2 });
      expect(testRun.secondsSince(startMs)).toBeLessThan(slack_units * unit);
    });

    test('wakes during a check are not lost, and cause one more check', async () => {
      const stepGate = gate();
      let checks = 0;
      let there = false;
      const testRun = await scene(adapter, (context) =>
        context.waitFor(
          'there',
          async () => {
            checks++;
            const wasThere = there;
            if (checks === 1) await stepGate.pass();
            return wasThere ? checks : undefined;
          },
          { until: moment(testRun.system.nowMs() + farUnits * unit * 1000), poll_seconds: farUnits * unit },
        ),
      );
      await testRun.start();
      await testRun.system.until('the first check', () => stepGate.blocked === 1);
      const startMs = testRun.system.nowMs();
      for (let i = 0; i < 10; i++) await testRun.system.engine.wake(testRun.workflow_id, 1);
      there = true;
      await testRun.system.engine.wake(testRun.workflow_id, 1);
      stepGate.open();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 2 });
      expect(testRun.secondsSince(startMs)).toBeLessThan(slack_units * unit);
    });

    test('a wake is harmless if nothing waits or the run is unknown', async () => {
      const stepGate = gate();
      let checks = 0;
      const testRun = await scene(adapter, async (context) => {
        await context.step('hold', stepGate.pass);
        const until = moment(testRun.system.nowMs() + 2 * unit * 1000);
        const check = async () => void checks++;
        await context.waitFor('there', check as () => Promise<undefined>, { until, poll_seconds: farUnits * unit });
        return null;
      });
      await testRun.system.engine.wake(testRun.workflow_id, 1);
      await testRun.start();
      await testRun.system.until('the step', () => stepGate.blocked === 1);
      for (let i = 0; i < 5; i++) await testRun.system.engine.wake(testRun.workflow_id, 1);
      stepGate.open();
      await testRun.outcome();
      // The wait checks at once, after the earlier wakes, and at its end.
      expect(checks).toBeGreaterThanOrEqual(2);
      expect(checks).toBeLessThanOrEqual(4);
    });

    test('a check that fails temporarily counts as no result yet', async () => {
      let checks = 0;
      const testRun = await scene(adapter, (context) =>
        context.waitFor(
          'there',
          async () => {
            if (++checks < 3) throw new Error('the network failed');
            return checks;
          },
          { until: moment(testRun.system.nowMs() + farUnits * unit * 1000), poll_seconds: unit / 2 },
        ),
      );
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 3 });
      expect(testRun.steps.map((report) => report.status)).toEqual(['waiting', 'retrying', 'retrying', 'done']);
    });

    test('a check with a final error fails the run, and the outcome names the wait', async () => {
      const gone = new StepError({
        code: 'machine_gone',
        owner_layer: 'cloud',
        message: 'it is gone',
        retryable: false,
      });
      const testRun = await scene(adapter, (context) =>
        context.waitFor<string>('there', () => Promise.reject(gone), {
          until: moment(testRun.system.nowMs() + farUnits * unit * 1000),
          poll_seconds: unit,
        }),
      );
      await testRun.start();
      expect(await testRun.outcome()).toMatchObject({
        status: 'failed',
        error: { step: 'there', code: 'machine_gone' },
      });
    });
  });
}
