/** Checks how a call retries while the server is busy, on a clock whose waits end at once. */
import { expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newCorrelationId } from '../../base/ids.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { ScriptedServer, testToken } from '../testing/scripted-server.ts';
import { openSession } from './session.ts';

test('retries four times, waits at most 5 s each, and prints the tries left', async () => {
  const server = await new ScriptedServer().start();
  server.refuse('pool-list', { code: 'server_busy', retry_after_seconds: 60 });
  const printed: string[] = [];
  const waitSeconds: number[] = [];
  let elapsedMs = 0;
  const session = openSession({
    connection: { server: server.url, token: testToken, ca: null },
    correlation_id: newCorrelationId(),
    clock: {
      ...systemClock,
      monotonicMs: () => elapsedMs,
      after(delayMs, run) {
        // Only the timeout of a call runs in real time.
        if (delayMs === 30_000) return systemClock.after(delayMs, run);
        waitSeconds.push(delayMs / 1000);
        elapsedMs += delayMs;
        return systemClock.after(0, run);
      },
    },
    signal: new AbortController().signal,
    terminal: { err: { write: (text: string) => void printed.push(text) } } as unknown as Terminal,
    json: false,
    commandLine: (...words) => words.join(' '),
  });
  await expect(session.call('pool-list', {})).rejects.toThrow();
  await server.stop();
  expect(waitSeconds).toEqual([5, 5, 5, 5]);
  expect(printed.join('').trim().split('\n')).toEqual([
    '… Server overloaded. Retrying in 5 s, 4 tries left.',
    '… Server overloaded. Retrying in 5 s, 3 tries left.',
    '… Server overloaded. Retrying in 5 s, 2 tries left.',
    '… Server overloaded. Retrying in 5 s, 1 try left.',
  ]);
});
