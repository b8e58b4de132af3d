/** Tests how often the prober scans for silent machines. Scenarios cover the probes themselves. */
import { expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { SweepServices } from '../runner/services.ts';
import { prober } from './prober.ts';

test('scans for silent machines twice a second, although starting machines wake it more often', async () => {
  const clock = virtualClock();
  const scans: string[] = [];
  const sweep = prober({
    db: {
      async query(text: string) {
        scans.push(/status = 'starting'/.test(text) ? 'starting' : 'silent');
        return [];
      },
    },
    clock,
    suspects: { list: async () => [{ node_id: 'node_1', due_ms: 0 }], everySeconds: () => 1 },
  } as unknown as SweepServices);
  const startMs = clock.nowMs();
  for (const ms of [0, 100, 200, 300, 400, 500, 600]) await sweep.run(moment(startMs + ms));
  expect(scans.filter((scan) => scan === 'starting')).toHaveLength(7);
  expect(scans.filter((scan) => scan === 'silent')).toHaveLength(2);
  // A clock that was set back must not stop probes.
  await sweep.run(moment(startMs - 60_000));
  expect(scans.at(-1)).toBe('silent');
});
