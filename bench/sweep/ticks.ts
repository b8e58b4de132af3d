/**
 * The cost of every sweep in the registry while nothing is due: all of them run constantly on every
 * replica.
 */
import { now } from '../../src/base/clock.ts';
import { sweepRegistry } from '../../src/sweeps/registry.ts';
import type { Fleet } from './passes.ts';
import type { Spent, Stopwatch } from './work.ts';

export async function measureTicks(
  { services }: Fleet,
  { samples, stopwatch }: { samples: number; stopwatch: Stopwatch },
): Promise<Map<string, Spent[]>> {
  // The scan of all heartbeats is measured separately.
  const unsuspecting = { at: async () => [], everySeconds: () => 1 };
  const ticks = new Map<string, Spent[]>();
  for (const sweep of sweepRegistry({ ...services, suspects: unsuspecting })) {
    const spent: Spent[] = [];
    for (let turn = 0; turn <= samples; turn++) {
      const tick = await stopwatch(() => sweep.run(now(services.clock)));
      if (turn > 0) spent.push(tick);
    }
    ticks.set(sweep.name, spent);
  }
  return ticks;
}
