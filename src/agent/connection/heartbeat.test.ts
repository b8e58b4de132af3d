/** Tests how soon an agent retries a heartbeat, with a scripted server and a virtual clock. */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { defaultTiming } from '../timing.ts';
import { heartbeatLoop } from './heartbeat.ts';

test.each([
  ['an interval of 1 s', 1],
  ['an interval of 60 s', 60],
])('with %s, retries a heartbeat no later than the next regular one', async (_, interval) => {
  const clock = virtualClock();
  const stop = new AbortController();
  const calls_ms: number[] = [];
  const reply = { node_status: 'ready', heartbeat_interval_seconds: interval, tasks_waiting: 0 };
  const parts = {
    clock,
    signal: stop.signal,
    timing: defaultTiming,
    server: {
      async heartbeat() {
        calls_ms.push(clock.monotonicMs());
        return calls_ms.length === 1
          ? { ok: true, body: reply }
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
  const pauses = calls_ms.slice(2).map((at_ms, index) => at_ms - (calls_ms[index + 1] ?? 0));
  const max_ms = Math.min(defaultTiming.beat_retry.max_ms, 1000 * interval);
  expect(pauses.length).toBeGreaterThan(10);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(max_ms + 100);
});
