import Fastify from 'fastify';
import { describe, expect, test } from 'vitest';
import { trustedProxies } from '../../base/network/trusted-proxies.ts';
import { networkOf, requestedHost, sourceAddress } from './source-address.ts';

/** Returns `sourceAddress` of an injected request with this socket address and header. */
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
  const cases: [string, { proxies: string[]; socket: string; forwarded?: string; expected: string }][] = [
    ['is the socket’s if there is no header', { proxies: ['10.0.0.1'], socket: '10.0.0.1', expected: '10.0.0.1' }],
    [
      'is the one that a trusted proxy forwards',
      { proxies: ['10.0.0.1'], socket: '10.0.0.1', forwarded: '192.0.2.7', expected: '192.0.2.7' },
    ],
    [
      'is the socket’s if the caller is not a trusted proxy',
      { proxies: ['10.0.0.1'], socket: '10.0.0.2', forwarded: '192.0.2.7', expected: '10.0.0.2' },
    ],
    [
      'is the last one in the header, not one that the caller sent to the proxy',
      { proxies: ['10.0.0.1'], socket: '10.0.0.1', forwarded: '1.1.1.1, 192.0.2.7', expected: '192.0.2.7' },
    ],
    [
      'is the nearest one that is not a trusted proxy',
      { proxies: ['10.0.0.0/8'], socket: '10.0.0.1', forwarded: '1.1.1.1, 192.0.2.7, 10.0.0.9', expected: '192.0.2.7' },
    ],
    [
      'is the proxy’s if the header is not an address',
      { proxies: ['10.0.0.1'], socket: '10.0.0.1', forwarded: 'admin', expected: '10.0.0.1' },
    ],
    [
      'is the proxy’s if the last entry of a chain is not an address',
      { proxies: ['10.0.0.0/8'], socket: '10.0.0.1', forwarded: '192.0.2.7, "; drop', expected: '10.0.0.1' },
    ],
    ['has no port', { proxies: ['loopback'], socket: '127.0.0.1', forwarded: '192.0.2.7:4711', expected: '192.0.2.7' }],
    [
      'has no port and no brackets if it is IPv6',
      { proxies: ['loopback'], socket: '::1', forwarded: '[2001:DB8::1]:4711', expected: '2001:db8::1' },
    ],
    [
      'is a plain IPv4 address on a dual-stack socket',
      { proxies: ['private'], socket: '::ffff:10.0.0.1', forwarded: '::ffff:192.0.2.7', expected: '192.0.2.7' },
    ],
    [
      'is the socket’s if no proxy is trusted',
      { proxies: [], socket: '127.0.0.1', forwarded: '192.0.2.7', expected: '127.0.0.1' },
    ],
  ];
  test.for(cases)('%s', async ([, { proxies, socket, forwarded, expected }]) => {
    expect(await addressOf(proxies, socket, forwarded)).toBe(expected);
  });
});

test('uses the forwarded host name only from a trusted proxy', () => {
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
])('counts %s under the network %s for rate limits', ([address = '', network]) => {
  expect(networkOf(address)).toBe(network);
});
