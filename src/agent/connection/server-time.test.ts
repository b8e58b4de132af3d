import { expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { serverTime } from './server-time.ts';

const httpDate = (ms: number) => moment(Math.floor(ms / 1000) * 1000).toUTCString();

test("uses this machine's clock until a server has answered", () => {
  const clock = virtualClock();
  const time = serverTime(clock);
  expect(time.nowMs()).toBe(clock.nowMs());
  time.heard('not a date', 0, 0);
  time.heard(undefined, 0, 0);
  expect(time.wasHeard()).toBe(false);
});

test('replies narrow the offset, although each names only the second', async () => {
  const clock = virtualClock();
  const time = serverTime(clock);
  const ahead_ms = 3_600_000;
  for (let i = 0; i < 20; i++) {
    await clock.advance(730);
    time.heard(httpDate(clock.nowMs() + ahead_ms), clock.monotonicMs() - 5, clock.monotonicMs());
  }
  expect(Math.abs(time.nowMs() - (clock.nowMs() + ahead_ms))).toBeLessThan(100);
});

test('follows a server whose clock was set at once', async () => {
  const clock = virtualClock();
  const time = serverTime(clock);
  for (const ahead_ms of [0, 0, -7_200_000]) {
    await clock.advance(730);
    time.heard(httpDate(clock.nowMs() + ahead_ms), clock.monotonicMs(), clock.monotonicMs());
  }
  expect(Math.abs(time.nowMs() - (clock.nowMs() - 7_200_000))).toBeLessThanOrEqual(1000);
});
