import { QueryCache, QueryClient, QueryObserver } from '@tanstack/react-query';
import { afterEach, expect, test } from 'vitest';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import { RequestRefused, ServerUnreachable } from '../../../src/contract/client.ts';
import type { Problem } from '../../../src/contract/errors/problem.ts';
import { retryFailedQueries } from './retry-policy.ts';

const refused = (problem: Partial<Problem>) => new RequestRefused(problem as Problem);
const busy = refused({ code: 'server_busy', status: 429, retry_after_seconds: 5 });

let end = () => {};
afterEach(() => end());

/** One active query, and a server that refuses it with `error` while it is not well. */
function scene(error: Error) {
  const clock = virtualClock();
  const server = { isWell: false, requests: 0 };
  const cache = new QueryClient({ queryCache: new QueryCache({ onError: retryFailedQueries(clock) }) });
  const observer = new QueryObserver(cache, {
    queryKey: ['pools'],
    retry: false,
    queryFn: async () => {
      server.requests += 1;
      if (!server.isWell) throw error;
      return 'answered';
    },
  });
  const leave = observer.subscribe(() => {});
  end = () => {
    leave();
    cache.clear();
  };
  return { clock, server, cache, leave, seen: () => observer.getCurrentResult() };
}

test('a query refused for the moment is retried after the time the server names, until it succeeds', async () => {
  const { clock, server, seen } = scene(busy);
  await clock.advance(4999);
  expect(server.requests).toBe(1);
  await clock.advance(5001);
  expect(server.requests).toBe(3);
  expect(seen().error).toBe(busy);
  server.isWell = true;
  await clock.advance(5000);
  expect(seen()).toMatchObject({ data: 'answered', error: null });
  await clock.advance(60_000);
  expect(server.requests).toBe(4);
});

test.each([new ServerUnreachable('silent'), refused({ code: 'internal', status: 500 })])(
  'silence and faults have the usual pause: %s',
  async (error) => {
    const { clock, server, seen } = scene(error);
    await clock.advance(0);
    server.isWell = true;
    await clock.advance(5000);
    expect(seen().data).toBe('answered');
  },
);

test('a query refused for good is not retried', async () => {
  const { clock, server } = scene(refused({ code: 'role_insufficient', status: 403 }));
  await clock.advance(60_000);
  expect(server.requests).toBe(1);
});

test('an unused query is not retried', async () => {
  const { clock, server, leave } = scene(busy);
  await clock.advance(0);
  leave();
  await clock.advance(60_000);
  expect(server.requests).toBe(1);
});

test('a query that was refetched meanwhile keeps one timer', async () => {
  const { clock, server, cache } = scene(busy);
  await clock.advance(1000);
  await cache.invalidateQueries();
  expect(server.requests).toBe(2);
  await clock.advance(4999);
  expect(server.requests).toBe(2);
  expect(clock.pendingTimers()).toBe(1);
});
