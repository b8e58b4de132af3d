import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { trustedProxies } from '../../../base/network/trusted-proxies.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import { createBodyBudget } from './body-budget.ts';
import { serve } from './until-served.ts';

const limits = {
  total_bytes: 100,
  source_bytes: 40,
  small_body_bytes: 5,
  for_small_bytes: 20,
  deadline_ms: 1_000,
};

function openBudget() {
  const clock = virtualClock();
  const lateSockets: unknown[] = [];
  const budget = createBodyBudget(clock, (socket) => lateSockets.push(socket), limits);
  /** Admits a request of this address; `null` bytes for a chunked body. */
  const admit = (address: string, bytes: number | null, overrides: object = {}) => {
    const raw = new EventEmitter();
    const headers = bytes === null ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(bytes) };
    const socket = { remoteAddress: address };
    const request = {
      ...{ headers, relay: null, server: { proxies: trustedProxies([]) } },
      raw: { headers, socket, complete: false },
      ...overrides,
    };
    budget.admit(request as never, { raw } as never, 40);
    return { request: request as never, raw, socket };
  };
  return { clock, lateSockets, budget, admit };
}

const refused = expect.objectContaining({ code: 'rate_limited' });

test('limits each source, and keeps room for small bodies', () => {
  const { admit, budget } = openBudget();
  admit('192.0.2.1', null);
  expect(() => admit('192.0.2.1', 1)).toThrow(refused);
  admit('192.0.2.2', 40);
  expect(() => admit('192.0.2.3', 6), 'a large body').toThrow(refused);
  for (let times = 0; times < 4; times++) admit('192.0.2.3', 5);
  expect(() => admit('192.0.2.4', 1)).toThrow(refused);
  admit('192.0.2.4', 40, { relay: { token_id: 'tok_1' } });
  expect(budget.heldBytes()).toBe(100);
});

test('frees room when the handler ends, or when the caller disconnects before it starts', async () => {
  const { admit, budget } = openBudget();
  const disconnected = admit('192.0.2.1', 10);
  disconnected.raw.emit('close');
  expect(budget.heldBytes()).toBe(0);
  await expect(serve(disconnected.request, async () => 'served')).rejects.toMatchObject({ code: 'request_timeout' });
  const connected = admit('192.0.2.1', 10);
  const answer = serve(connected.request, async () => {
    connected.raw.emit('close');
    expect(budget.heldBytes(), 'the handler still runs').toBe(10);
    return 'served';
  });
  expect(await answer).toBe('served');
  expect(budget.heldBytes()).toBe(0);
});

test('reports a body that arrives too slowly as late, but not a request whose body is complete', async () => {
  const { admit, lateSockets, clock } = openBudget();
  const slow = admit('192.0.2.1', 10);
  admit('192.0.2.2', 10, { raw: { headers: {}, socket: { remoteAddress: '192.0.2.2' }, complete: true } });
  await clock.advance(999);
  expect(lateSockets).toEqual([]);
  await clock.advance(1);
  expect(lateSockets).toEqual([slow.socket]);
});
