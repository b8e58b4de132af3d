import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { createLongPolls } from './long-polls.ts';

/** Its timers never fire, so a test fails if a wait would end only by its time limit. */
const clock = { ...systemClock, after: () => () => {} };

/** An HTTP server with one long poll, which answers with whether it ended because of the close. */
async function openServer() {
  const listeners = new Set<(fact: Evidence) => void>();
  const subscribe = (listener: (fact: Evidence) => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const polls = createLongPolls({ tail: { subscribe }, clock });
  const server = createServer(async (_, response) => {
    await polls.waitForFact(response, 60_000, ({ kind }) => kind === 'task.queued');
    response.end(String(polls.areClosing()));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    polls,
    server,
    poll: async (signal?: AbortSignal) => (await fetch(url, signal ? { signal } : {})).text(),
    bring: (kind: string) => {
      for (const listener of [...listeners]) listener({ kind } as Evidence);
    },
    waitForPolls: (count: number) => until(`${count} waiting polls`, () => listeners.size === count),
  };
}

test('a poll waits for a matching fact', async () => {
  const { poll, bring, waitForPolls } = await openServer();
  const answer = poll();
  await waitForPolls(1);
  bring('task.leased');
  await waitForPolls(1);
  bring('task.queued');
  expect(await answer).toBe('false');
  await waitForPolls(0);
});

test('waiting polls are answered before the server closes its connections', async () => {
  const { polls, server, poll, waitForPolls } = await openServer();
  const answers = [poll(), poll()];
  await waitForPolls(2);
  await polls.close();
  server.closeAllConnections();
  expect(await Promise.all(answers)).toEqual(['true', 'true']);
});

test('a poll ends when its caller disconnects', async () => {
  const { poll, waitForPolls } = await openServer();
  const caller = new AbortController();
  const answer = poll(caller.signal).catch(() => 'disconnected');
  await waitForPolls(1);
  caller.abort();
  expect(await answer).toBe('disconnected');
  await waitForPolls(0);
});

test('a poll of a caller that has disconnected before does not wait, and does not delay the close', async () => {
  const polls = createLongPolls({ tail: { subscribe: () => () => {} }, clock });
  const server = createServer(async (_, response) => {
    response.destroy();
    await once(response, 'close');
    await polls.waitForFact(response, 60_000, () => false);
    await polls.close();
    server.close();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const closed = once(server, 'close');
  await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`).catch(() => {});
  await closed;
});
