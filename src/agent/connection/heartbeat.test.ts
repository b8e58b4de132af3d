/**
 * How soon an agent retries an unanswered heartbeat, with a scripted server and a virtual clock.
 */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { defaultTiming } from '../timing.ts';
import { heartbeatLoop } from './heartbeat.ts';

test.each([
  ['an impatient pool', 1],
  ['a patient one', 60],
])('retries no later than the next regular heartbeat: %s', async (_, interval) => {
  const clock = virtualClock();
  const stop = new AbortController();
  const called: number[] = [];
  const answered = { node_status: 'ready', heartbeat_interval_seconds: interval, tasks_waiting: 0 };
  const parts = {
    clock,
    signal: stop.signal,
    timing: defaultTiming,
    server: {
      async heartbeat() {
        called.push(clock.monotonicMs());
        return called.length === 1
          ? { ok: true, body: answered }
          : { ok: false, failure: { kind: 'unreachable', retry_after_seconds: null } };
      },
    },
    report: { current: () => ({}), onChange() {} },
    state: { read: () => ({}), update() {} },
    log: { info() {}, warn() {} },
    onReply() {},
  };
  const { done } = heartbeatLoop(parts as unknown as Parameters<typeof heartbeatLoop>[0]);
  for (let step = 0; step < 3_000; step++) await clock.advance(100);
  stop.abort();
  await done;
  const pauses = called.slice(2).map((at, place) => at - (called[place + 1] ?? 0));
  const max_ms = Math.min(defaultTiming.beat_retry.max_ms, 1000 * interval);
  expect(pauses.length).toBeGreaterThan(10);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(max_ms + 100);
});
