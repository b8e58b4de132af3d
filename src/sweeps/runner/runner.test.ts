/** How the runner counts the decisions of sweeps. */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { createSweepRunner } from './runner.ts';

const fact = (kind: string, by: string) => ({ kind, data: { by } }) as unknown as Evidence;

test('counts the verdicts of a sweep with `decided_by` from evidence, not from its runs', async () => {
  const runner = createSweepRunner({
    clock: virtualClock(),
    onError: (_, error) => {
      throw error;
    },
    sweeps: [
      {
        name: 'release-deadline',
        every_seconds: 2,
        decided_by: ({ kind, data }) => kind === 'allocation.release_failed' && data.by === 'release-deadline',
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
