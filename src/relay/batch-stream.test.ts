/** How a relay's stream ends when the relay is told to stop: with a goodbye, and without waiting for nobody. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { until } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import { createLog } from '../base/telemetry/log.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { keepBatchStream } from './batch-stream.ts';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A control plane that lets nobody in until it is told to. */
async function slowDoor() {
  const knocking: (() => void)[] = [];
  const closings: number[] = [];
  const server = new WebSocketServer({
    port: 0,
    host: '127.0.0.1',
    verifyClient: (_, letIn) => void knocking.push(() => letIn(true)),
  });
  await once(server, 'listening');
  const inside: WebSocket[] = [];
  server.on('connection', (socket) => {
    inside.push(socket);
    socket.on('close', (code) => closings.push(code));
  });
  ends.push(() => {
    for (const socket of inside) socket.terminate();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, knocking, inside, closings };
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

test('one that is open ends with a goodbye', async () => {
  const { url, knocking, closings } = await slowDoor();
  const stream = streamTo(url);
  (await until('it to knock', () => knocking[0]))();
  await until('it to be open', () => stream.isOpen());
  await stream.stop();
  await until('its end', () => closings.length > 0);
  expect(closings).toEqual([1000]);
});

test('one that is being opened ends with a goodbye too', async () => {
  const { url, knocking, closings } = await slowDoor();
  const stream = streamTo(url);
  const letIn = await until('it to knock', () => knocking[0]);
  const stopped = stream.stop();
  letIn();
  await stopped;
  await until('its end', () => closings.length > 0);
  expect(closings).toEqual([1000]);
  expect(knocking, 'and does not come back').toHaveLength(1);
});

test('nobody waits for a control plane that does not answer', async () => {
  const { url, knocking, inside } = await slowDoor();
  const clock = virtualClock();
  const stream = streamTo(url, clock);
  await until('it to knock', () => knocking[0]);
  let over = false;
  const stopped = stream.stop().then(() => {
    over = true;
  });
  await clock.advance(999);
  expect(over).toBe(false);
  await clock.advance(1);
  await stopped;
  expect(inside).toEqual([]);
});
