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
  const late: unknown[] = [];
  const budget = createBodyBudget(clock, (socket) => late.push(socket), limits);
  /** Admits a request of this address; `null` bytes for a chunked body. */
  const open = (address: string, bytes: number | null, more: object = {}) => {
    const raw = new EventEmitter();
    const headers = bytes === null ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(bytes) };
    const socket = { remoteAddress: address };
    const request = {
      ...{ headers, relay: null, server: { proxies: trustedProxies([]) } },
      raw: { headers, socket, complete: false },
      ...more,
    };
    budget.admit(request as never, { raw } as never, 40);
    return { request: request as never, raw, socket };
  };
  return { clock, late, budget, open };
}

const refused = expect.objectContaining({ code: 'rate_limited' });

test('limits each source, and keeps room for small bodies', () => {
  const { open, budget } = openBudget();
  open('192.0.2.1', null);
  expect(() => open('192.0.2.1', 1)).toThrow(refused);
  open('192.0.2.2', 40);
  expect(() => open('192.0.2.3', 6), 'a large body').toThrow(refused);
  for (let times = 0; times < 4; times++) open('192.0.2.3', 5);
  expect(() => open('192.0.2.4', 1)).toThrow(refused);
  open('192.0.2.4', 40, { relay: { token_id: 'tok_1' } });
  expect(budget.heldBytes()).toBe(100);
});

test('frees room when the handler ends, or when the caller disconnects before it starts', async () => {
  const { open, budget } = openBudget();
  const disconnected = open('192.0.2.1', 10);
  disconnected.raw.emit('close');
  expect(budget.heldBytes()).toBe(0);
  await expect(serve(disconnected.request, async () => 'served')).rejects.toMatchObject({ code: 'request_timeout' });
  const connected = open('192.0.2.1', 10);
  const answer = serve(connected.request, async () => {
    connected.raw.emit('close');
    expect(budget.heldBytes(), 'the handler still runs').toBe(10);
    return 'served';
  });
  expect(await answer).toBe('served');
  expect(budget.heldBytes()).toBe(0);
});

test('reports a body that arrives too slowly as late, but not a request whose body is complete', async () => {
  const { open, late, clock } = openBudget();
  const slow = open('192.0.2.1', 10);
  open('192.0.2.2', 10, { raw: { headers: {}, socket: { remoteAddress: '192.0.2.2' }, complete: true } });
  await clock.advance(999);
  expect(late).toEqual([]);
  await clock.advance(1);
  expect(late).toEqual([slow.socket]);
});
