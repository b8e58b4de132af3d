/** How a command waits for a server that has no time, when waiting takes none. */
import { expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newCorrelationId } from '../../base/ids.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { ScriptedServer, testToken } from '../testing/scripted-server.ts';
import { openSession } from './session.ts';

test('it asks a few times, never waits longer than a few seconds, and says of each wait how often is left', async () => {
  const server = await new ScriptedServer().start();
  server.refuse('pool-list', { code: 'server_busy', status: 503, title: 'No time', retry_after_seconds: 60 });
  const said: string[] = [];
  const waited: number[] = [];
  let passedMs = 0;
  const session = openSession({
    connection: { server: server.url, token: testToken, ca: null },
    correlation_id: newCorrelationId(),
    clock: {
      ...systemClock,
      monotonicMs: () => passedMs,
      after(delayMs, run) {
        // The bound of a call passes as it does; a wait is over at once.
        if (delayMs === 30_000) return systemClock.after(delayMs, run);
        waited.push(delayMs / 1000);
        passedMs += delayMs;
        return systemClock.after(0, run);
      },
    },
    signal: new AbortController().signal,
    terminal: { err: { write: (text: string) => void said.push(text) } } as unknown as Terminal,
    json: false,
    commandLine: (...words) => words.join(' '),
  });
  await expect(session.call('pool-list', {})).rejects.toThrow();
  await server.stop();
  expect(waited).toEqual([5, 5, 5, 5]);
  expect(said.join('').trim().split('\n')).toEqual([
    '… No time. Asking again in 5 s, 4 times at most.',
    '… No time. Asking again in 5 s, 3 times at most.',
    '… No time. Asking again in 5 s, 2 times at most.',
    '… No time. Asking again in 5 s, for the last time.',
  ]);
});
