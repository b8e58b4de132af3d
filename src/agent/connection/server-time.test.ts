import { expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { serverTime } from './server-time.ts';

const httpDate = (ms: number) => moment(Math.floor(ms / 1000) * 1000).toUTCString();

test("uses this machine's clock until a server has answered", () => {
  const clock = virtualClock();
  const time = serverTime(clock);
  expect(time.nowMs()).toBe(clock.nowMs());
  time.onDate('not a date', 0, 0);
  time.onDate(undefined, 0, 0);
  expect(time.isKnown()).toBe(false);
});

test('estimates the offset within 100 ms from replies with whole seconds', async () => {
  const clock = virtualClock();
  const time = serverTime(clock);
  const ahead_ms = 3_600_000;
  for (let i = 0; i < 20; i++) {
    await clock.advance(730);
    time.onDate(httpDate(clock.nowMs() + ahead_ms), clock.monotonicMs() - 5, clock.monotonicMs());
  }
  expect(Math.abs(time.nowMs() - (clock.nowMs() + ahead_ms))).toBeLessThan(100);
});

test('follows the server as soon as its clock is changed', async () => {
  const clock = virtualClock();
  const time = serverTime(clock);
  for (const ahead_ms of [0, 0, -7_200_000]) {
    await clock.advance(730);
    time.onDate(httpDate(clock.nowMs() + ahead_ms), clock.monotonicMs(), clock.monotonicMs());
  }
  expect(Math.abs(time.nowMs() - (clock.nowMs() - 7_200_000))).toBeLessThanOrEqual(1000);
});
