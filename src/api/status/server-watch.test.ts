import { expect, test } from 'vitest';
import { now } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { ServerFacts } from '../../lifecycle/findings/server-problems.ts';
import { watchServer } from './server-watch.ts';

function watchTestServer() {
  const clock = virtualClock();
  const files = { used: 10, limit: 100 };
  const logged: [string, unknown][] = [];
  const note = ({ code }: { code?: string }, message: string) => void logged.push([message, code]);
  let reads = 0;
  const watch = watchServer({
    clock,
    log: { warn: note, info: note, error: note } as never,
    async readFacts(): Promise<ServerFacts> {
      reads++;
      return {
        at: now(clock),
        database: { state: 'ok', detail: null },
        connections: null,
        is_short_of_connections: false,
        disk: null,
        is_short_of_disk: false,
        growth: null,
        files: { ...files },
        heap: { used: 1, limit: 100 },
        certificate: null,
        backup: null,
        tail_lag_seconds: 0,
        sweeps: [],
        started_at: now(clock),
        restoration: null,
        clock_step: null,
      };
    },
  });
  return { clock, files, logged, watch, reads: () => reads };
}

test('logs a problem once when it begins and once when it ends, and dates it from its start', async () => {
  const { clock, files, logged, watch } = watchTestServer();
  await clock.advance(10_000);
  files.used = 95;
  await clock.advance(10_000);
  const begin = now(clock);
  files.used = 99;
  await clock.advance(60_000);
  const { problems } = await watch.look();
  expect(problems).toEqual([{ problem: { code: 'files_low', used: 99, limit: 100 }, since: begin }]);
  files.used = 10;
  await clock.advance(10_000);
  expect((await watch.look()).problems, 'near its limit, a problem is not over at once').toHaveLength(1);
  await clock.advance(20_000);
  expect((await watch.look()).problems).toEqual([]);
  expect(logged).toEqual([
    ['problem of this server: Few file descriptors are left', 'files_low'],
    ['problem of this server is over: Few file descriptors are left', 'files_low'],
  ]);
  watch.stop();
});

test('reads the facts at most every 2 s, however many callers ask', async () => {
  const { clock, watch, reads } = watchTestServer();
  await Promise.all(Array.from({ length: 20 }, () => watch.look()));
  await watch.look();
  expect(reads()).toBe(1);
  await clock.advance(2_000);
  await watch.look();
  expect(reads()).toBe(2);
  watch.stop();
});
