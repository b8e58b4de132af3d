import Fastify from 'fastify';
import { describe, expect, test } from 'vitest';
import { trustedProxies } from '../../base/network/trusted-proxies.ts';
import { networkOf, requestedHost, sourceAddress } from './source-address.ts';

/** The address of a request that reached a real server through these sockets and headers. */
async function addressOf(proxies: string[], socket: string, forwarded?: string): Promise<string> {
  const app = Fastify();
  app.decorate('proxies', trustedProxies(proxies));
  app.get('/', async (request) => sourceAddress(request));
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
  const { body } = await app.inject({ url: '/', remoteAddress: socket, headers });
  await app.close();
  return body;
}

describe('the address of a caller', () => {
  const cases: [string, { proxies: string[]; socket: string; forwarded?: string; is: string }][] = [
    ['is the socket’s without a header', { proxies: ['10.0.0.1'], socket: '10.0.0.1', is: '10.0.0.1' }],
    [
      'is what the trusted proxy says',
      { proxies: ['10.0.0.1'], socket: '10.0.0.1', forwarded: '192.0.2.7', is: '192.0.2.7' },
    ],
    [
      'is the socket’s for a caller that is no proxy',
      { proxies: ['10.0.0.1'], socket: '10.0.0.2', forwarded: '192.0.2.7', is: '10.0.0.2' },
    ],
    [
      'is not what the caller sent to the proxy',
      { proxies: ['10.0.0.1'], socket: '10.0.0.1', forwarded: '1.1.1.1, 192.0.2.7', is: '192.0.2.7' },
    ],
    [
      'is behind a chain of trusted proxies',
      { proxies: ['10.0.0.0/8'], socket: '10.0.0.1', forwarded: '1.1.1.1, 192.0.2.7, 10.0.0.9', is: '192.0.2.7' },
    ],
    ['ends at what is no address', { proxies: ['10.0.0.1'], socket: '10.0.0.1', forwarded: 'admin', is: '10.0.0.1' }],
    [
      'ends at what is no address in a chain',
      { proxies: ['10.0.0.0/8'], socket: '10.0.0.1', forwarded: '192.0.2.7, "; drop', is: '10.0.0.1' },
    ],
    [
      'does without the port',
      { proxies: ['loopback'], socket: '127.0.0.1', forwarded: '192.0.2.7:4711', is: '192.0.2.7' },
    ],
    [
      'does without the port of IPv6',
      { proxies: ['loopback'], socket: '::1', forwarded: '[2001:DB8::1]:4711', is: '2001:db8::1' },
    ],
    [
      'is the same on a dual-stack socket',
      { proxies: ['private'], socket: '::ffff:10.0.0.1', forwarded: '::ffff:192.0.2.7', is: '192.0.2.7' },
    ],
    [
      'is the socket’s where no proxy is trusted',
      { proxies: [], socket: '127.0.0.1', forwarded: '192.0.2.7', is: '127.0.0.1' },
    ],
  ];
  test.for(cases)('%s', async ([, { proxies, socket, forwarded, is }]) => {
    expect(await addressOf(proxies, socket, forwarded)).toBe(is);
  });
});

test('the forwarded name counts only from a trusted proxy', () => {
  const requestFrom = (remoteAddress: string) => ({
    socket: { remoteAddress },
    headers: { host: 'inner.example', 'x-forwarded-host': 'forged.example, outer.example' },
  });
  const proxies = trustedProxies(['10.0.0.0/8']);
  expect(requestedHost(requestFrom('10.0.0.1'), proxies)).toBe('outer.example');
  expect(requestedHost(requestFrom('192.0.2.7'), proxies)).toBe('inner.example');
});

test.for([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8:0:1::7', '2001:db8:0:1::/64'],
  ['2001:db8:0:1:aaaa:bbbb:cccc:dddd', '2001:db8:0:1::/64'],
  ['2001:db8::7', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
])('%s is limited as %s', ([address = '', network]) => {
  expect(networkOf(address)).toBe(network);
});
