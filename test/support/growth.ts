/**
 * Checks that the time of some work grows linearly with its input. The check is on the ratio of two
 * times, which does not depend on the speed of the machine. It uses the CPU time of this thread,
 * which does not depend on the load of the machine.
 */
import { expect } from 'vitest';

const factor = 4;
/** Linear work has a ratio of 4, quadratic work a ratio of 16. */
const maxRatio = 9;
/**
 * Garbage collection only adds time, so the minimum of many runs is closest to the work. Quadratic
 * work stays above the limit in every run.
 */
const maxRuns = 25;
/** The first run of the small input may include warm-up. */
const minRuns = 3;
/**
 * Below this, a garbage collection pause takes longer than the work, and the ratio means nothing.
 * A shorter time for the small input counts as this long.
 */
const floorMs = 10;
/** The limit for all runs together. Work that takes longer has been measured well enough. */
const maxTotalMs = 10_000;

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

async function measureMs(work: () => unknown): Promise<number> {
  const beganMs = cpuMs();
  await work();
  return cpuMs() - beganMs;
}

/** `prepare` builds an input of the given size; its time is not measured. */
export async function expectLinear<Input>(
  what: string,
  size: number,
  prepare: (size: number) => Input,
  work: (input: Input) => unknown,
): Promise<void> {
  const [small, large] = [prepare(size), prepare(factor * size)];
  let [smallMs, largeMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let ratio = Number.POSITIVE_INFINITY;
  const beganMs = cpuMs();
  for (let run = 0; run < maxRuns; run++) {
    const isEnough = ratio < maxRatio && (run >= minRuns || largeMs < floorMs);
    if (isEnough || cpuMs() - beganMs > maxTotalMs) break;
    smallMs = Math.min(smallMs, await measureMs(() => work(small)));
    largeMs = Math.min(largeMs, await measureMs(() => work(large)));
    ratio = largeMs / Math.max(smallMs, floorMs);
  }
  const message = `${what}: ${factor} × the input took ${ratio.toFixed(1)} × as long (${largeMs.toFixed(0)} ms)`;
  expect(ratio, message).toBeLessThan(maxRatio);
}
