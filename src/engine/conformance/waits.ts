/** Waits: asked at once, at every wake, at every poll, and never longer than they may take. */
import { describe, expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { StepError } from '../engine.ts';
import { type Adapter, gate, scene } from './harness.ts';

export function waitsConform(adapter: Adapter): void {
  const { unit_seconds: unit, slack_units } = adapter;
  const farUnits = 10 * slack_units;

  describe('waits', () => {
    test('sleeping takes its time', async () => {
      const it = await scene(adapter, async (context) => {
        await context.sleep(3 * unit);
        return null;
      });
      const startMs = it.world.nowMs();
      await it.start();
      await it.outcome();
      expect(it.secondsSince(startMs)).toBeGreaterThanOrEqual(3 * unit);
      expect(it.secondsSince(startMs)).toBeLessThan((3 + slack_units) * unit);
    });

    test('a wake does not shorten a sleep', async () => {
      let asleep = false;
      const it = await scene(adapter, async (context) => {
        await context.step('ready', async () => {
          asleep = true;
        });
        await context.sleep(4 * unit);
        return null;
      });
      await it.start();
      await it.world.until('the sleep', () => asleep);
      const startMs = it.world.nowMs();
      await it.world.engine.wake(it.workflow_id, 1);
      await it.outcome();
      expect(it.secondsSince(startMs)).toBeGreaterThan(3 * unit);
    });

    test('a wait asks at once', async () => {
      const it = await scene(adapter, (context) =>
        context.waitFor('there', async () => 'already', {
          until: moment(it.world.nowMs() + farUnits * unit * 1000),
          poll_seconds: farUnits * unit,
        }),
      );
      await it.start();
      expect(await it.outcome()).toEqual({ status: 'succeeded', result: 'already' });
      expect(it.steps).toEqual([
        { step: 'there', try: 1, status: 'waiting' },
        { step: 'there', try: 1, status: 'done' },
      ]);
    });

    test('a wait asks again at every poll', async () => {
      let asked = 0;
      const it = await scene(adapter, (context) =>
        context.waitFor('there', async () => (++asked === 4 ? asked : undefined), {
          until: moment(it.world.nowMs() + farUnits * unit * 1000),
          poll_seconds: unit,
        }),
      );
      const startMs = it.world.nowMs();
      await it.start();
      expect(await it.outcome()).toEqual({ status: 'succeeded', result: 4 });
      expect(it.secondsSince(startMs)).toBeGreaterThanOrEqual(3 * unit);
    });

    test('a wait whose moment passes answers nothing, after a last look', async () => {
      const askedAt: number[] = [];
      const it = await scene(adapter, async (context) => {
        const until = await context.step('until', async () => it.world.nowMs() + 3 * unit * 1000);
        const look = async () => void askedAt.push(it.world.nowMs());
        const answer = await context.waitFor('there', look as () => Promise<undefined>, {
          until: moment(until),
          poll_seconds: 2 * unit,
        });
        return { answered: answer !== undefined, late: (askedAt.at(-1) ?? 0) >= until };
      });
      await it.start();
      expect(await it.outcome()).toEqual({ status: 'succeeded', result: { answered: false, late: true } });
      // A busy machine may sleep through the look in the middle, never through the first and the last.
      expect(askedAt.length).toBeGreaterThanOrEqual(2);
      expect(askedAt.length).toBeLessThanOrEqual(5);
    });

    test('a wake makes a wait ask again at once', async () => {
      let asked = 0;
      let there = false;
      const it = await scene(adapter, (context) =>
        context.waitFor('there', async () => (++asked && there ? asked : undefined), {
          until: moment(it.world.nowMs() + farUnits * unit * 1000),
          poll_seconds: farUnits * unit,
        }),
      );
      await it.start();
      await it.world.until('the first look', () => asked === 1);
      there = true;
      const startMs = it.world.nowMs();
      await it.world.engine.wake(it.workflow_id, 1);
      expect(await it.outcome()).toEqual({ status: 'succeeded', result: 2 });
      expect(it.secondsSince(startMs)).toBeLessThan(slack_units * unit);
    });

    test('a wake during a look is not lost, and many cost one look', async () => {
      const held = gate();
      let asked = 0;
      let there = false;
      const it = await scene(adapter, (context) =>
        context.waitFor(
          'there',
          async () => {
            asked++;
            const seen = there;
            if (asked === 1) await held.pass();
            return seen ? asked : undefined;
          },
          { until: moment(it.world.nowMs() + farUnits * unit * 1000), poll_seconds: farUnits * unit },
        ),
      );
      await it.start();
      await it.world.until('the first look', () => held.held === 1);
      const startMs = it.world.nowMs();
      for (let i = 0; i < 10; i++) await it.world.engine.wake(it.workflow_id, 1);
      there = true;
      await it.world.engine.wake(it.workflow_id, 1);
      held.open();
      expect(await it.outcome()).toEqual({ status: 'succeeded', result: 2 });
      expect(it.secondsSince(startMs)).toBeLessThan(slack_units * unit);
    });

    test('a wake while nothing waits, or for no run at all, is harmless', async () => {
      const held = gate();
      let asked = 0;
      const it = await scene(adapter, async (context) => {
        await context.step('hold', held.pass);
        const until = moment(it.world.nowMs() + 2 * unit * 1000);
        const look = async () => void asked++;
        await context.waitFor('there', look as () => Promise<undefined>, { until, poll_seconds: farUnits * unit });
        return null;
      });
      await it.world.engine.wake(it.workflow_id, 1);
      await it.start();
      await it.world.until('the step', () => held.held === 1);
      for (let i = 0; i < 5; i++) await it.world.engine.wake(it.workflow_id, 1);
      held.open();
      await it.outcome();
      // At once, for the wakes that came before, and at the end.
      expect(asked).toBeGreaterThanOrEqual(2);
      expect(asked).toBeLessThanOrEqual(4);
    });

    test('a look that fails for now counts as no answer yet', async () => {
      let asked = 0;
      const it = await scene(adapter, (context) =>
        context.waitFor(
          'there',
          async () => {
            if (++asked < 3) throw new Error('the network blinked');
            return asked;
          },
          { until: moment(it.world.nowMs() + farUnits * unit * 1000), poll_seconds: unit / 2 },
        ),
      );
      await it.start();
      expect(await it.outcome()).toEqual({ status: 'succeeded', result: 3 });
      expect(it.steps.map((report) => report.status)).toEqual(['waiting', 'retrying', 'retrying', 'done']);
    });

    test('a look that fails for good fails the run with its name', async () => {
      const gone = new StepError({
        code: 'machine_gone',
        owner_layer: 'cloud',
        message: 'it is gone',
        retryable: false,
      });
      const it = await scene(adapter, (context) =>
        context.waitFor<string>('there', () => Promise.reject(gone), {
          until: moment(it.world.nowMs() + farUnits * unit * 1000),
          poll_seconds: unit,
        }),
      );
      await it.start();
      expect(await it.outcome()).toMatchObject({ status: 'failed', error: { step: 'there', code: 'machine_gone' } });
    });
  });
}
