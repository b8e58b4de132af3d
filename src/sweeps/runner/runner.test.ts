/** Tests how the runner counts decisions, stops sweeps, and pauses them after a restore. */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { createSweepRunner } from './runner.ts';

const fact = (kind: string, by: string) => ({ kind, data: { by } }) as unknown as Evidence;

test('counts the verdicts of a sweep with `isDecision` from evidence, not from its runs', async () => {
  const runner = createSweepRunner({
    clock: virtualClock(),
    onError: (_, error) => {
      throw error;
    },
    sweeps: [
      {
        name: 'release-deadline',
        every_seconds: 2,
        isDecision: ({ kind, data }) => kind === 'allocation.release_failed' && data.by === 'release-deadline',
        run: async () => ({ decided: 1 }),
      },
      { name: 'other', every_seconds: 2, run: async () => ({ decided: 1 }) },
    ],
  });
  await runner.nudge('release-deadline');
  await runner.nudge('other');
  runner.observe(fact('allocation.release_failed', 'release-deadline'));
  runner.observe(fact('allocation.release_failed', 'release-deadline'));
  runner.observe(fact('allocation.released', 'proof'));
  expect(runner.statuses().map(({ name, decided }) => [name, decided])).toEqual([
    ['release-deadline', 2],
    ['other', 1],
  ]);
  await runner.stop();
});

test('a stop with names waits for the runs of these sweeps only', async () => {
  const { promise: slow, resolve: endSlow } = Promise.withResolvers<void>();
  const { promise: quick, resolve: endQuick } = Promise.withResolvers<void>();
  const ended: string[] = [];
  const sweep = (name: string, run: Promise<void>) => ({
    name,
    every_seconds: 2,
    run: async () => {
      await run;
      ended.push(name);
      return { decided: 0, more: true };
    },
  });
  const runner = createSweepRunner({
    clock: virtualClock(),
    onError: (_, error) => {
      throw error;
    },
    sweeps: [sweep('slow', slow), sweep('quick', quick)],
  });
  void runner.nudge('slow');
  void runner.nudge('quick');
  const stopped = runner.stop(['quick']).then(() => ended.push('stopped'));
  endQuick();
  await stopped;
  expect(ended).toEqual(['quick', 'stopped']);
  endSlow();
  await runner.stop();
  expect(ended).toEqual(['quick', 'stopped', 'slow']);
});

test('after a restore only the marked sweeps run, and the others run at once when the restoration ends', async () => {
  const clock = virtualClock();
  let isOpen = true;
  const ran: string[] = [];
  const sweep = (name: string) => ({
    name,
    every_seconds: 600,
    isWokenBy: (kind: string) => kind === 'node.ready',
    run: async () => {
      ran.push(name);
      return { decided: 0 };
    },
  });
  const runner = createSweepRunner({
    clock,
    onError: (_, error) => {
      throw error;
    },
    isObserving: () => isOpen,
    sweeps: [{ ...sweep('counts'), runsAfterRestore: true }, sweep('liveness')],
  });
  runner.start();
  await clock.advance(1_000);
  expect(ran).toEqual(['counts']);
  expect(runner.statuses()).toMatchObject([
    { name: 'counts', runs: 1, waiting: false },
    { name: 'liveness', runs: 1, waiting: true, error: null },
  ]);
  // Neither evidence nor a nudge starts a paused sweep.
  runner.observe(fact('node.ready', 'claim-ready'));
  await runner.nudge('liveness');
  expect(ran).toEqual(['counts', 'counts']);
  isOpen = false;
  runner.resume();
  await clock.advance(0);
  expect(ran).toEqual(['counts', 'counts', 'counts', 'liveness']);
  expect(runner.statuses()).toMatchObject([{ waiting: false }, { waiting: false }]);
  await runner.stop();
});
