/**
 * Conformance tests for recovery after a crash: only steps without a recorded result run again, and
 * the listener is always notified.
 */
import { describe, expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { StepError } from '../engine.ts';
import { type Adapter, gate, scene } from './harness.ts';

export function describeRecovery(adapter: Adapter): void {
  const { unit_seconds: unit, slack_units } = adapter;

  describe('recovery', () => {
    test('runs only steps without a recorded result after a crash', async () => {
      const stepGate = gate();
      const effects: string[] = [];
      let crashed = false;
      const testRun = await scene(adapter, async (context) => {
        const first = await context.step('first', async () => effects.push('first'));
        await context.emit('between');
        await context.step('second', async () => {
          effects.push('second');
          if (!crashed) await stepGate.pass();
        });
        return { first, third: await context.step('third', async () => effects.push('third')) };
      });
      await testRun.start();
      await testRun.system.until('the second step', () => stepGate.blocked === 1);
      crashed = true;
      expect(await testRun.system.crash()).toBe(1);
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: { first: 1, third: 4 } });
      expect(effects).toEqual(['first', 'second', 'second', 'third']);
      expect(testRun.emitted).toEqual(['between']);
      expect(testRun.executions).toBe(2);
      expect(testRun.outcomes).toHaveLength(1);
    });

    test('continues to count the tries of a step after a crash', async () => {
      const stepGate = gate();
      const tries: number[] = [];
      let crashed = false;
      const testRun = await scene(adapter, (context) =>
        context.step(
          'reach',
          async (call) => {
            tries.push(call.try);
            if (call.try === 2 && !crashed) await stepGate.pass();
            throw new StepError({
              code: 'upstream_down',
              owner_layer: 'cloud',
              message: 'unavailable',
              retryable: true,
            });
          },
          { tries: 3, base_seconds: unit / 4, max_seconds: unit },
        ),
      );
      await testRun.start();
      await testRun.system.until('the second try', () => stepGate.blocked === 1);
      crashed = true;
      await testRun.system.crash();
      expect(await testRun.outcome()).toMatchObject({
        status: 'failed',
        error: { step: 'reach', code: 'upstream_down' },
      });
      expect(tries).toEqual([1, 2, 2, 3]);
    });

    test('continues an interrupted sleep only for the remaining time', async () => {
      const sleepUnits = 4 * slack_units;
      let asleep = false;
      const testRun = await scene(adapter, async (context) => {
        await context.step('ready', async () => {
          asleep = true;
        });
        await context.sleep(sleepUnits * unit);
        return null;
      });
      await testRun.start();
      await testRun.system.until('the sleep', () => asleep);
      const startMs = testRun.system.nowMs();
      await testRun.system.pass((sleepUnits / 2) * unit);
      expect(testRun.outcomes).toEqual([]);
      await testRun.system.crash();
      await testRun.outcome();
      expect(testRun.secondsSince(startMs)).toBeGreaterThanOrEqual((sleepUnits - 1) * unit);
      expect(testRun.secondsSince(startMs)).toBeLessThan((sleepUnits + slack_units) * unit);
    });

    test('delivers a cancel that was sent after a crash to the recovered wait', async () => {
      let checks = 0;
      const check = async () => {
        checks++;
        return undefined;
      };
      const testRun = await scene(adapter, (context) =>
        context.waitFor('there', check, {
          until: moment(testRun.system.nowMs() + 100 * slack_units * unit * 1000),
          poll_seconds: 100 * slack_units * unit,
        }),
      );
      await testRun.start();
      await testRun.system.until('the first check', () => checks === 1);
      await testRun.system.crash();
      await testRun.system.engine.cancel(testRun.workflow_id, 1);
      expect(await testRun.outcome()).toEqual({ status: 'cancelled' });
    });

    test('does not take over a finished run', async () => {
      const testRun = await scene(adapter, async () => null);
      await testRun.start();
      await testRun.outcome();
      await testRun.system.until('the record of the end', () => testRun.system.finished(testRun.workflow_id));
      expect(await testRun.system.crash()).toBe(0);
      expect(testRun.executions).toBe(1);
    });

    test('continues a run with the revision that it started with', async () => {
      const stepGate = gate();
      let crashed = false;
      const testRun = await scene(
        adapter,
        async (context) => {
          await context.step('hold', async () => {
            if (!crashed) await stepGate.pass();
          });
          return 'first revision';
        },
        { later: async () => 'second revision' },
      );
      await testRun.start();
      await testRun.system.until('the step', () => stepGate.blocked === 1);
      crashed = true;
      await testRun.system.crash();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 'first revision' });
    });

    test('runs no step before the listener has accepted `executing`', async () => {
      let refusals = 0;
      let effects = 0;
      const testRun = await scene(adapter, (context) => context.step('effect', async () => ++effects), {
        async executing() {
          expect(effects).toBe(0);
          if (refusals++ < 2) throw new Error('this replica has no lease');
        },
      });
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 1 });
      expect(refusals).toBe(3);
    });

    test('repeats `ended` until the listener accepts it', async () => {
      let refusals = 0;
      const testRun = await scene(adapter, async () => 'done', {
        async ended() {
          if (refusals++ < 2) throw new Error('the database is unavailable');
        },
      });
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 'done' });
      expect(refusals).toBe(3);
    });

    test('fails a run whose code does not match its journal', async () => {
      const stepGate = gate();
      let crashed = false;
      const testRun = await scene(adapter, async (context) => {
        try {
          await context.step(crashed ? 'renamed' : 'original', async () => null);
          await context.step('hold', stepGate.pass);
        } catch {
          return 'the operation must not be able to hide this';
        }
        return null;
      });
      await testRun.start();
      await testRun.system.until('the step', () => stepGate.blocked === 1);
      crashed = true;
      await testRun.system.crash();
      expect(await testRun.outcome()).toMatchObject({
        status: 'failed',
        error: { step: null, code: 'internal_error', owner_layer: 'control_plane' },
      });
    });
  });
}
