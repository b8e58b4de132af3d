/**
 * Behind a proxy, people sign in at the name of the proxy, and the audit shows the address of the
 * client.
 */
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/calls.ts';

const publicName = 'slipway.example';
const clientAddress = '198.51.100.23';
const origin = `https://${publicName}`;

/**
 * Simulates a TLS proxy: appends the client's address, as nginx does, and sets X-Forwarded-Host.
 */
function createProxy(target: string): Server {
  return createServer((incoming, outgoing) => {
    const forwardedFor = incoming.headers['x-forwarded-for'];
    const headers = {
      ...incoming.headers,
      'x-forwarded-for': [...(forwardedFor === undefined ? [] : [forwardedFor]), clientAddress].join(', '),
      'x-forwarded-host': publicName,
    };
    const proxyRequest = request(target + incoming.url, { method: incoming.method, headers }, (reply) => {
      outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(outgoing);
    });
    incoming.pipe(proxyRequest);
  });
}

let server: SpawnedServer;
let proxy: Server;
let url: string;

beforeAll(async () => {
  server = await spawnServer({ args: ['--behind-proxy'] });
  proxy = createProxy(server.url).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
});
afterAll(async () => {
  proxy?.close();
  await server?.stop();
});

it('signs people in at the name of the proxy', async () => {
  const signedIn = await send(url, 'POST', '/v1/session', { headers: { origin }, body: { token: server.token } });
  expect(signedIn.status).toBeLessThan(300);
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
  expect((await send(url, 'GET', '/v1/session', { headers: { origin, cookie } })).status).toBe(200);
});

it('records a failed sign-in under the real address of the client, even if the client forges X-Forwarded-For', async () => {
  const correlation_id = 'failed-sign-in';
  const headers = { origin, 'x-correlation-id': correlation_id, 'x-forwarded-for': '203.0.113.1' };
  await send(url, 'POST', '/v1/session', { headers, body: { token: 'swt_this-is-not-a-token-of-ours' } });
  const fact = await until('the refusal to be recorded', async () => {
    const { items } = await server.client.call('timeline-get', { query: { correlation_id } });
    return items.find(({ kind }) => kind === 'request.denied');
  });
  expect(fact.actor).toEqual({ kind: 'address', id: clientAddress, name: clientAddress });
});
