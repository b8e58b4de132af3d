import { expect, it } from 'vitest';
import { systemClock } from '../clock.ts';
import { virtualClock } from '../virtual-clock.ts';
import { sharedScan } from './shared-scan.ts';

it('shares one scan among concurrent callers', async () => {
  let readings = 0;
  const scan = sharedScan(virtualClock(), async () => ++readings);
  expect(await Promise.all(Array.from({ length: 50 }, () => scan()))).toEqual(Array(50).fill(1));
});

it('never returns a scan that started before the call', async () => {
  let world = 'before';
  const finish: (() => void)[] = [];
  const scan = sharedScan(systemClock, async () => {
    const seen = world;
    await new Promise<void>((resolve) => finish.push(resolve));
    return seen;
  });
  const early = scan();
  while (finish.length === 0) await new Promise((resolve) => setImmediate(resolve));
  world = 'after';
  const late = scan();
  finish[0]?.();
  expect(await early).toBe('before');
  while (finish.length === 1) await new Promise((resolve) => setImmediate(resolve));
  finish[1]?.();
  expect(await late).toBe('after');
});

it('pauses between scans, however often it is called', async () => {
  const clock = virtualClock();
  let readings = 0;
  const scan = sharedScan(clock, async () => ++readings);
  const answers: Promise<number>[] = [];
  for (let tick = 0; tick < 1000; tick++) {
    answers.push(scan());
    await clock.advance(1);
  }
  await clock.advance(1000);
  await Promise.all(answers);
  expect(readings).toBeGreaterThan(10);
  expect(readings).toBeLessThan(60);
});

it('rejects every caller of a failed scan, and scans again for the next', async () => {
  let readings = 0;
  const scan = sharedScan(systemClock, async () => {
    readings++;
    if (readings === 1) throw new Error('no table');
    return readings;
  });
  const results = await Promise.allSettled([scan(), scan()]);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await scan()).toBe(2);
});
