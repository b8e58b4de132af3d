/**
 * Measures each sweep in the registry while no node is due. Every replica runs all sweeps all the
 * time, so a run without due nodes must be cheap.
 */
import { now } from '../../src/base/clock.ts';
import { sweepRegistry } from '../../src/sweeps/registry.ts';
import type { Fleet } from './passes.ts';
import type { Cost, Stopwatch } from './work.ts';

export async function measureTicks(
  { services }: Fleet,
  { samples, stopwatch }: { samples: number; stopwatch: Stopwatch },
): Promise<Map<string, Cost[]>> {
  // Instead of the scan of all heartbeats, which is measured separately.
  const noSuspects = { list: async () => [], everySeconds: () => 1 };
  const ticks = new Map<string, Cost[]>();
  for (const sweep of sweepRegistry({ ...services, suspects: noSuspects })) {
    const spent: Cost[] = [];
    for (let turn = 0; turn <= samples; turn++) {
      const tick = await stopwatch(() => sweep.run(now(services.clock)));
      if (turn > 0) spent.push(tick);
    }
    ticks.set(sweep.name, spent);
  }
  return ticks;
}
