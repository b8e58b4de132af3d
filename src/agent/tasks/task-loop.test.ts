/** Tests when the agent gives up a poll without an answer. Server and clock are simulated. */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { defaultTiming } from '../timing.ts';
import { taskLoop } from './task-loop.ts';

test.each([
  ['after 1 s if another call was lost meanwhile and tasks wait', 1, 1, defaultTiming.lost_poll_ms],
  // The answer to the poll, with a task, may be lost too.
  ['after 1 s if another call was lost meanwhile and no task waits', 1, 0, defaultTiming.lost_poll_ms],
  ['after the usual timeout if no call was lost and tasks wait', 0, 1, defaultTiming.call_timeout_ms],
])('repeats an open poll %s', async (_, lost, tasks_waiting, limit_ms) => {
  const clock = virtualClock();
  const stop = new AbortController();
  const lostAnswer = { ok: false, failure: { retry_after_seconds: null } };
  let polls = 0;
  let interruptions = 3;
  const server = {
    interruptions: () => interruptions,
    nextTask(_wait: number, signal: AbortSignal) {
      polls++;
      return new Promise((resolve) => signal.addEventListener('abort', () => resolve(lostAnswer), { once: true }));
    },
  };
  const parts = { clock, server, timing: defaultTiming, signal: stop.signal };
  const loop = taskLoop(parts as unknown as Parameters<typeof taskLoop>[0]);
  interruptions += lost;
  loop.onBeatAnswered(tasks_waiting);
  await clock.advance(limit_ms - 1);
  expect(polls).toBe(1);
  await clock.advance(1);
  await clock.advance(0);
  expect(polls).toBe(2);
  stop.abort();
  await clock.advance(defaultTiming.task_retry.max_ms);
  await loop.done;
});

test('does not repeat an open poll if no call was lost and no task waits', async () => {
  const clock = virtualClock();
  const stop = new AbortController();
  let polls = 0;
  const server = {
    interruptions: () => 0,
    nextTask(_wait: number, signal: AbortSignal) {
      polls++;
      return new Promise((resolve) =>
        signal.addEventListener('abort', () => resolve({ ok: true, body: { task: null } }), { once: true }),
      );
    },
  };
  const parts = { clock, server, timing: defaultTiming, signal: stop.signal };
  const loop = taskLoop(parts as unknown as Parameters<typeof taskLoop>[0]);
  loop.onBeatAnswered(0);
  await clock.advance(2 * defaultTiming.call_timeout_ms);
  expect(polls).toBe(1);
  stop.abort();
  await clock.advance(defaultTiming.task_retry.max_ms);
  await loop.done;
});
