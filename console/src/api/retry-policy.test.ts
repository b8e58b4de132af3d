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

/** One active query, and a server that fails it with `error` until `isUp` is set. */
function startQuery(error: Error) {
  const clock = virtualClock();
  const server = { isUp: false, requests: 0 };
  const cache = new QueryClient({ queryCache: new QueryCache({ onError: retryFailedQueries(clock) }) });
  const observer = new QueryObserver(cache, {
    queryKey: ['pools'],
    retry: false,
    queryFn: async () => {
      server.requests += 1;
      if (!server.isUp) throw error;
      return 'answered';
    },
  });
  const leave = observer.subscribe(() => {});
  end = () => {
    leave();
    cache.clear();
  };
  return { clock, server, cache, leave, result: () => observer.getCurrentResult() };
}

test('a query that was refused with Retry-After is retried after that time until it succeeds', async () => {
  const { clock, server, result } = startQuery(busy);
  await clock.advance(4999);
  expect(server.requests).toBe(1);
  await clock.advance(5001);
  expect(server.requests).toBe(3);
  expect(result().error).toBe(busy);
  server.isUp = true;
  await clock.advance(5000);
  expect(result()).toMatchObject({ data: 'answered', error: null });
  await clock.advance(60_000);
  expect(server.requests).toBe(4);
});

test.each([new ServerUnreachable('silent'), refused({ code: 'internal', status: 500 })])(
  'an unreachable server or a server error is retried after the default pause: %s',
  async (error) => {
    const { clock, server, result } = startQuery(error);
    await clock.advance(0);
    server.isUp = true;
    await clock.advance(5000);
    expect(result().data).toBe('answered');
  },
);

test('a query that is not allowed is not retried', async () => {
  const { clock, server } = startQuery(refused({ code: 'role_insufficient', status: 403 }));
  await clock.advance(60_000);
  expect(server.requests).toBe(1);
});

test('an unused query is not retried', async () => {
  const { clock, server, leave } = startQuery(busy);
  await clock.advance(0);
  leave();
  await clock.advance(60_000);
  expect(server.requests).toBe(1);
});

test('a query that is refetched before its retry keeps one timer', async () => {
  const { clock, server, cache } = startQuery(busy);
  await clock.advance(1000);
  await cache.invalidateQueries();
  expect(server.requests).toBe(2);
  await clock.advance(4999);
  expect(server.requests).toBe(2);
  expect(clock.pendingTimers()).toBe(1);
});
