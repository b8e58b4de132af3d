import { expect, it } from 'vitest';
import { systemClock } from '../clock.ts';
import { virtualClock } from '../virtual-clock.ts';
import { createSharedScan } from './shared-scan.ts';

it('shares one scan among concurrent callers', async () => {
  let scans = 0;
  const scan = createSharedScan(virtualClock(), async () => ++scans);
  expect(await Promise.all(Array.from({ length: 50 }, () => scan()))).toEqual(Array(50).fill(1));
});

it('never returns a scan that started before the call', async () => {
  let state = 'before';
  const finish: (() => void)[] = [];
  const scan = createSharedScan(systemClock, async () => {
    const scanned = state;
    await new Promise<void>((resolve) => finish.push(resolve));
    return scanned;
  });
  const early = scan();
  while (finish.length === 0) await new Promise((resolve) => setImmediate(resolve));
  state = 'after';
  const late = scan();
  finish[0]?.();
  expect(await early).toBe('before');
  while (finish.length === 1) await new Promise((resolve) => setImmediate(resolve));
  finish[1]?.();
  expect(await late).toBe('after');
});

it('pauses between scans, however often it is called', async () => {
  const clock = virtualClock();
  let scans = 0;
  const scan = createSharedScan(clock, async () => ++scans);
  const answers: Promise<number>[] = [];
  for (let tick = 0; tick < 1000; tick++) {
    answers.push(scan());
    await clock.advance(1);
  }
  await clock.advance(1000);
  await Promise.all(answers);
  expect(scans).toBeGreaterThan(10);
  expect(scans).toBeLessThan(60);
});

it('rejects every caller of a failed scan, and scans again for the next', async () => {
  let scans = 0;
  const scan = createSharedScan(systemClock, async () => {
    scans++;
    if (scans === 1) throw new Error('no table');
    return scans;
  });
  const results = await Promise.allSettled([scan(), scan()]);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await scan()).toBe(2);
});
