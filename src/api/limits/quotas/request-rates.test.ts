import type { FastifyReply, FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { trustedProxies } from '../../../base/network/trusted-proxies.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import { routes } from '../../../contract/routes.ts';
import { defaultLimits } from '../../../lifecycle/limits/limits.ts';
import { tenantOnly, wholeFleet } from '../../../lifecycle/visibility.ts';
import type { AgentSession } from '../../../store/agents/sessions/agent-sessions.ts';
import { createRequestRates } from './request-rates.ts';

const limits = {
  ...defaultLimits.requests,
  tenant: { burst: 5, per_second: 1 },
  refused: { burst: 3, per_second: 1 },
};
const caller = (identity: object, address = '192.0.2.1') =>
  ({
    ...{ person: null, agent_session: null, relay: null, ...identity },
    query: {},
    raw: { headers: {}, socket: { remoteAddress: address } },
    server: { proxies: trustedProxies([]) },
  }) as unknown as FastifyRequest;
const tenant = (name: string | null) =>
  caller({ person: { visibility: name === null ? wholeFleet : tenantOnly(name), token_id: 't', name: 't' } });

function createTestRates() {
  const clock = virtualClock();
  const rates = createRequestRates(clock, limits);
  const headers: Record<string, string> = {};
  const reply = { header: (name: string, value: string) => Object.assign(headers, { [name]: value }) };
  /** Sends a refusal; `atOnce` is whether it was sent without delay. */
  const sendRefusal = async (request: FastifyRequest) => {
    let sent = false;
    const sending = rates.delayRefusal(request, reply as unknown as FastifyReply).then(() => {
      sent = true;
    });
    await clock.advance(0);
    const atOnce = sent;
    return { atOnce, sending };
  };
  return { ...rates, clock, headers, sendRefusal };
}

test('refuses a tenant over its rate for a while, but no other tenant and no fleet token', async () => {
  const { admit, clock } = createTestRates();
  const call = (request: FastifyRequest) => admit(request, 'node-get', routes['node-get']);
  for (let times = 0; times < 5; times++) call(tenant('loud'));
  expect(() => call(tenant('loud'))).toThrow(expect.objectContaining({ code: 'rate_limited' }));
  call(tenant('quiet'));
  for (let times = 0; times < 20; times++) call(tenant(null));
  await clock.advance(1_500);
  call(tenant('loud'));
});

test('delays refusals of a caller that is refused too often, and of no other caller', async () => {
  const { clock, sendRefusal } = createTestRates();
  const stranger = caller({});
  for (let times = 0; times < 3; times++) expect((await sendRefusal(stranger)).atOnce).toBe(true);
  const late = await sendRefusal(stranger);
  expect(late.atOnce).toBe(false);
  expect((await sendRefusal(caller({}, '192.0.2.2'))).atOnce).toBe(true);
  expect((await sendRefusal(caller({ agent_session: { node_instance_id: 'inst_a' } }))).atOnce).toBe(true);
  await clock.advance(2_000);
  await late.sending;
});

test('closes the connection when too many answers are delayed', async () => {
  const { sendRefusal, headers } = createTestRates();
  const stranger = caller({});
  for (let times = 0; times < 3 + 128; times++) await sendRefusal(stranger);
  expect(headers).toEqual({});
  expect((await sendRefusal(stranger)).atOnce).toBe(true);
  expect(headers).toEqual({ connection: 'close' });
});

test('delays heartbeats of a machine only beyond fifty per second', () => {
  const { beatDelayMs } = createTestRates();
  const session = { assigned_at_seconds: 10 } as AgentSession;
  for (let beat = 2; beat <= 50; beat++) expect(beatDelayMs(session, 9_500)).toBe(0);
  expect(beatDelayMs(session, 9_500)).toBe(1_000);
  expect(beatDelayMs(session, 10_500), 'in the next second').toBe(0);
});

test('charges a page before it is read, and corrects the charge by the size of the reply', async () => {
  const { admit, chargeReply, clock } = createTestRates();
  const call = (query: object) => {
    const request = Object.assign(tenant('loud'), { query });
    admit(request, 'node-list', routes['node-list']);
    return request;
  };
  const refused = expect.objectContaining({ code: 'rate_limited' });
  // Fifty items are estimated at five requests, the whole allowance. The reply is short, so four
  // requests are refunded.
  const short = call({ limit: '50' });
  expect(() => call({ limit: '1' })).toThrow(refused);
  chargeReply(short, 900);
  const long = call({ limit: '1' });
  // A fifth of a second does not refill the cost of a reply of 100 KB.
  chargeReply(long, 100 * 1024);
  await clock.advance(200);
  expect(() => call({ limit: '1' })).toThrow(refused);
  await clock.advance(10_000);
  // A refused request was not charged, so its reply refunds nothing.
  for (let times = 0; times < 5; times++) call({ limit: '1' });
  const over = Object.assign(tenant('loud'), { query: { limit: '500' } });
  expect(() => admit(over, 'node-list', routes['node-list'])).toThrow(refused);
  chargeReply(over, 300);
  expect(() => call({ limit: '1' })).toThrow(refused);
});

test('charges a call that starts an operation as five requests', () => {
  const { admit } = createTestRates();
  const create = () => admit(tenant('loud'), 'allocation-create', routes['allocation-create']);
  create();
  expect(create).toThrow(expect.objectContaining({ code: 'rate_limited' }));
});

test('charges a page that is read after the request was admitted', () => {
  const { admit, chargePage } = createTestRates();
  const request = tenant('resuming');
  admit(request, 'node-get', routes['node-get']);
  chargePage(request, 500);
  expect(() => admit(tenant('resuming'), 'node-get', routes['node-get'])).toThrow(
    expect.objectContaining({ code: 'rate_limited' }),
  );
});

test('does not charge the size of a reply to an address', () => {
  const { admit, chargeReply } = createTestRates();
  for (let times = 0; times < 50; times++) {
    const request = caller({});
    admit(request, 'agent-bundle', routes['agent-bundle']);
    chargeReply(request, 10 * 1024 * 1024);
  }
});
