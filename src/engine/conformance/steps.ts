/** Conformance tests for steps: results are recorded, and errors are retried by policy. */
import { describe, expect, test } from 'vitest';
import { type Json, StepError, StepFailed, singleTry } from '../engine.ts';
import { type Adapter, gate, scene } from './harness.ts';

const upstreamError = (retryable: boolean) =>
  new StepError({ code: 'upstream_away', owner_layer: 'cloud', message: 'the upstream is unavailable', retryable });

export function describeSteps(adapter: Adapter): void {
  const { unit_seconds: unit } = adapter;

  describe('steps', () => {
    test('the engine lists the operations that it can run, with their revisions', async () => {
      const nothing = async () => null;
      const testRun = await scene(adapter, nothing, { later: nothing });
      expect(testRun.system.engine.registered()).toEqual([1, 2].map((revision) => ({ kind: testRun.kind, revision })));
    });

    test('a run receives its parameters and the results of its steps', async () => {
      const testRun = await scene(
        adapter,
        async (context, params) => {
          const nothing = await context.step('nothing', async () => undefined);
          const something = await context.step('something', async () => ({ list: [1, null, 'a'], deep: { ok: true } }));
          const empty = await context.step('empty', async () => null);
          return { params, nothing: nothing === undefined, something, empty };
        },
        { params: { size: 3 } },
      );
      await testRun.start();
      expect(await testRun.outcome()).toEqual({
        status: 'succeeded',
        result: {
          params: { size: 3 },
          nothing: true,
          something: { list: [1, null, 'a'], deep: { ok: true } },
          empty: null,
        },
      });
      expect(testRun.steps).toEqual([
        { step: 'nothing', try: 1, status: 'started' },
        { step: 'nothing', try: 1, status: 'done' },
        { step: 'something', try: 1, status: 'started' },
        { step: 'something', try: 1, status: 'done' },
        { step: 'empty', try: 1, status: 'started' },
        { step: 'empty', try: 1, status: 'done' },
      ]);
    });

    test('a retryable error is retried with growing pauses', async () => {
      const triedAt: number[] = [];
      const policy = { tries: 3, base_seconds: 4 * unit, max_seconds: 100 * unit };
      const testRun = await scene(adapter, (context) =>
        context.step(
          'reach',
          async (call) => {
            triedAt.push(testRun.system.nowMs());
            if (call.try < 3) throw upstreamError(true);
            return { ...call };
          },
          policy,
        ),
      );
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: { try: 3, step: 'reach' } });
      const [first = 0, second = 0, third = 0] = triedAt;
      expect((second - first) / 1000).toBeGreaterThanOrEqual(2 * unit);
      expect((third - second) / 1000).toBeGreaterThanOrEqual(4 * unit);
      expect(testRun.steps.filter((report) => report.status !== 'started')).toEqual([
        { step: 'reach', try: 1, status: 'retrying', code: 'upstream_away' },
        { step: 'reach', try: 2, status: 'retrying', code: 'upstream_away' },
        { step: 'reach', try: 3, status: 'done' },
      ]);
    });

    test('an unclassified error is retried, then reported as internal_error', async () => {
      const testRun = await scene(adapter, (context) =>
        context.step('stumble', () => Promise.reject(new TypeError('no such property')), {
          tries: 2,
          base_seconds: unit / 10,
          max_seconds: unit,
        }),
      );
      await testRun.start();
      expect(await testRun.outcome()).toEqual({
        status: 'failed',
        error: {
          step: 'stumble',
          code: 'internal_error',
          owner_layer: 'control_plane',
          message: 'no such property',
        },
      });
      expect(testRun.steps.map((report) => report.status)).toEqual(['started', 'retrying', 'started', 'failed']);
    });

    test('a final error fails the run at once, and the outcome names the step', async () => {
      const testRun = await scene(adapter, async (context) => {
        await context.step('reach', () => Promise.reject(upstreamError(false)));
        return 'not reached';
      });
      await testRun.start();
      expect(await testRun.outcome()).toEqual({
        status: 'failed',
        error: { step: 'reach', code: 'upstream_away', owner_layer: 'cloud', message: 'the upstream is unavailable' },
      });
      expect(testRun.steps).toEqual([
        { step: 'reach', try: 1, status: 'started' },
        { step: 'reach', try: 1, status: 'failed', code: 'upstream_away' },
      ]);
    });

    test('an operation can catch a failed step, clean up and rethrow', async () => {
      const events: Json[] = [];
      const testRun = await scene(adapter, async (context) => {
        try {
          return await context.step('reach', () => Promise.reject(upstreamError(true)), singleTry);
        } catch (error) {
          if (!(error instanceof StepFailed)) throw error;
          events.push({ step: error.step, code: error.code, tries: error.tries });
          await context.step('tidy', async () => void events.push('cleaned up'));
          throw error;
        }
      });
      await testRun.start();
      expect(await testRun.outcome()).toMatchObject({ status: 'failed', error: { step: 'reach' } });
      expect(events).toEqual([{ step: 'reach', code: 'upstream_away', tries: 1 }, 'cleaned up']);
    });

    test('an error outside of any step fails the run, and the outcome names no step', async () => {
      const testRun = await scene(adapter, async () => Promise.reject(new RangeError('out of range')));
      await testRun.start();
      expect(await testRun.outcome()).toEqual({
        status: 'failed',
        error: { step: null, code: 'internal_error', owner_layer: 'control_plane', message: 'out of range' },
      });
    });

    test('a repeated step name gets its own key', async () => {
      const testRun = await scene(adapter, async (context) => {
        const keys: string[] = [];
        for (let i = 0; i < 3; i++) keys.push(await context.step('look', async (call) => call.step));
        return keys;
      });
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: ['look', 'look#2', 'look#3'] });
    });

    test('a call is refused while another call of the same run is not finished', async () => {
      const testRun = await scene(adapter, async (context) => {
        const both = [context.step('left', async () => 1), context.step('right', async () => 2)];
        const settled = await Promise.allSettled(both);
        return settled.map((one) => (one.status === 'rejected' ? String(one.reason) : one.status));
      });
      await testRun.start();
      expect(await testRun.outcome()).toEqual({
        status: 'succeeded',
        result: ['fulfilled', expect.stringContaining('await one at a time')],
      });
    });

    test('a run that is started several times, even concurrently, executes once', async () => {
      const stepGate = gate();
      let effects = 0;
      const testRun = await scene(adapter, async (context) => {
        await context.step('effect', async () => void effects++);
        await context.step('hold', stepGate.pass);
        return 'once';
      });
      await Promise.all([testRun.start(), testRun.start()]);
      await testRun.system.until('the run to be held', () => stepGate.blocked > 0);
      await testRun.start();
      stepGate.open();
      await testRun.outcome();
      await testRun.start();
      expect(effects).toBe(1);
      expect(testRun.executions).toBe(1);
      expect(testRun.outcomes).toEqual([{ status: 'succeeded', result: 'once' }]);
    });

    test('progress is published in order, inside and outside of steps', async () => {
      const testRun = await scene(adapter, async (context) => {
        await context.emit({ percent: 10 });
        await context.step('half', () => context.emit({ percent: 50 }));
        await context.emit({ percent: 100 });
        return null;
      });
      await testRun.start();
      await testRun.outcome();
      expect(testRun.emitted).toEqual([{ percent: 10 }, { percent: 50 }, { percent: 100 }]);
    });

    test('a listener that fails on progress and steps does not stop the run', async () => {
      const refuse = () => Promise.reject(new Error('the listener failed'));
      const testRun = await scene(
        adapter,
        async (context) => {
          await context.emit({ percent: 10 });
          return context.step('go-on', async () => 'went on');
        },
        { emitted: refuse, stepStarted: refuse, stepEnded: refuse },
      );
      await testRun.start();
      expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 'went on' });
    });
  });
}
