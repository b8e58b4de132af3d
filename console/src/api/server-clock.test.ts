import { expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { noteServerDate, serverNowMs } from './server-clock.ts';

const serverAheadSeconds = () => Math.round((serverNowMs() - systemClock.nowMs()) / 1000);
const header = (ms: number) => new Date(ms).toUTCString();

it('adopts the server time if it differs, but ignores a difference that a slow reply explains', () => {
  const nowMs = systemClock.nowMs();
  noteServerDate(header(nowMs + 60_000), nowMs - 100, nowMs);
  expect(serverAheadSeconds()).toBeGreaterThan(58);
  noteServerDate(header(nowMs - 8000), nowMs - 9000, nowMs);
  expect(serverAheadSeconds()).toBe(0);
  noteServerDate(header(nowMs - 60_000), nowMs - 9000, nowMs);
  expect(serverAheadSeconds()).toBeLessThan(-58);
  noteServerDate(null, nowMs, nowMs);
  expect(serverAheadSeconds()).toBeLessThan(-58);
});
