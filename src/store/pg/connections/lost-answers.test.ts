/** Tests how many probes run at the same time, and that every role is probed. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../../../test/support/until.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import { createLostAnswers, maxProbes, type WatchedConnection } from './lost-answers.ts';

/** Accepts connections and never answers. */
async function silentServer() {
  const open = new Set<Socket>();
  const roles: string[] = [];
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
    socket.once('data', (login) => roles.push(/user\0(\w+)/.exec(login.toString('latin1'))?.[1] ?? ''));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  onTestFinished(() => {
    cut();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, open, roles, cut };
}

test('runs at most `maxProbes` probes at the same time, and probes every role in turn', async () => {
  const { port, open, roles, cut } = await silentServer();
  const clock = virtualClock();
  const waiting = ['a', 'b', 'c', 'd', 'e'].map(
    (role): WatchedConnection => ({
      config: { connectionString: `postgres://${role}@127.0.0.1:${port}/nothing` },
      server: () => `127.0.0.1:${port}`,
      isWaiting: true,
      since_ms: clock.monotonicMs(),
      unread_bytes: 0,
      pid: () => 1,
      drop: () => {},
    }),
  );
  const lost = createLostAnswers({ clock, connections: waiting });
  onTestFinished(() => lost.stop());
  const seen: string[] = [];
  for (const expected of [2, 4, 6]) {
    await until('the probes to log in', async () => {
      await clock.advance(10_000);
      lost.inspect(waiting);
      return roles.length >= expected;
    });
    expect(open.size).toBe(maxProbes);
    seen.push(...roles.slice(seen.length));
    cut();
    await until('the probes to end', () => open.size === 0);
  }
  expect(seen.slice(0, 5).sort()).toEqual(['a', 'b', 'c', 'd', 'e']);
});
