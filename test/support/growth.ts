/**
 * How the time of some work grows with its input. A ratio holds on a slow machine where a time does not, and CPU time of this
 * thread holds on a busy one, where other processes take turns.
 */
import { expect } from 'vitest';

const factor = 4;
/** Quadratic work would take 16 times as long. */
const maxRatio = 9;
/** The collector only ever adds to a time, so more runs find the true one; quadratic work stays above all of them. */
const maxRuns = 25;
/** The first run of the small input may be slow for reasons of its own. */
const leastRuns = 3;
/** Below this, a pause of the collector is longer than the work; and nine times this does no harm. */
const floorMs = 10;
/** For both sizes of one input; work that takes longer has been measured well enough. */
const maxTotalMs = 10_000;

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

async function timeOf(work: () => unknown): Promise<number> {
  const beganMs = cpuMs();
  await work();
  return cpuMs() - beganMs;
}

/** `prepare` makes an input of a size, and is not measured. */
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
    const isEnough = ratio < maxRatio && (run >= leastRuns || largeMs < floorMs);
    if (isEnough || cpuMs() - beganMs > maxTotalMs) break;
    smallMs = Math.min(smallMs, await timeOf(() => work(small)));
    largeMs = Math.min(largeMs, await timeOf(() => work(large)));
    ratio = largeMs / Math.max(smallMs, floorMs);
  }
  const shown = `${what}: ${factor} × the input took ${ratio.toFixed(1)} × as long (${largeMs.toFixed(0)} ms)`;
  expect(ratio, shown).toBeLessThan(maxRatio);
}
