/** Tests how a relay's stream closes when the relay stops. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { until } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import { createLog } from '../base/telemetry/log.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { keepBatchStream } from './batch-stream.ts';

const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const end of cleanups.splice(0)) end();
});

/** A control plane that accepts a connection only when the test calls its handshake. */
async function slowServer() {
  const handshakes: (() => void)[] = [];
  const closings: number[] = [];
  const server = new WebSocketServer({
    port: 0,
    host: '127.0.0.1',
    verifyClient: (_, accept) => void handshakes.push(() => accept(true)),
  });
  await once(server, 'listening');
  const accepted: WebSocket[] = [];
  server.on('connection', (socket) => {
    accepted.push(socket);
    socket.on('close', (code) => closings.push(code));
  });
  cleanups.push(() => {
    for (const socket of accepted) socket.terminate();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, handshakes, accepted, closings };
}

const streamTo = (url: string, clock = systemClock) =>
  keepBatchStream({
    clock,
    log: createLog({ level: 'silent' }),
    url: () => url,
    ca: null,
    token: 'swr_1',
    timeout_ms: 60_000,
  });

test('closes an open stream with code 1000', async () => {
  const { url, handshakes, closings } = await slowServer();
  const stream = streamTo(url);
  (await until('the handshake', () => handshakes[0]))();
  await until('the stream to be open', () => stream.isOpen());
  await stream.stop();
  await until('the stream to close', () => closings.length > 0);
  expect(closings).toEqual([1000]);
});

test('closes a stream that is still opening with code 1000', async () => {
  const { url, handshakes, closings } = await slowServer();
  const stream = streamTo(url);
  const accept = await until('the handshake', () => handshakes[0]);
  const stopped = stream.stop();
  accept();
  await stopped;
  await until('the stream to close', () => closings.length > 0);
  expect(closings).toEqual([1000]);
  expect(handshakes, 'the stream does not reconnect').toHaveLength(1);
});

test('stops after one second if the control plane does not answer the handshake', async () => {
  const { url, handshakes, accepted } = await slowServer();
  const clock = virtualClock();
  const stream = streamTo(url, clock);
  await until('the handshake', () => handshakes[0]);
  let isStopped = false;
  const stopped = stream.stop().then(() => {
    isStopped = true;
  });
  await clock.advance(999);
  expect(isStopped).toBe(false);
  await clock.advance(1);
  await stopped;
  expect(accepted).toEqual([]);
});
