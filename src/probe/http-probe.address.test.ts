import { networkInterfaces } from 'node:os';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../test/support/free-port.ts';
import { until } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { type ProbeTarget, probe, type Resolve } from './http-probe.ts';
import { httpServer } from './testing/loopback-servers.ts';
import { silentPort } from './testing/silent-port.ts';

const targetOf = (base_url: string, overrides: Partial<ProbeTarget> = {}): ProbeTarget => ({
  base_url,
  path: '/health',
  timeout_seconds: 60,
  allow_private: true,
  ...overrides,
});

/** A resolver that returns one list after another, and records the names that were looked up. */
function resolver(...answers: string[][]) {
  const lookups: string[] = [];
  const resolve: Resolve = async (name) =>
    answers[lookups.push(name) - 1] ?? expect.fail(`${name} was looked up too often`);
  return { lookups, resolve };
}

const healthyServer = (listenOptions?: { host?: string; port?: number }) =>
  httpServer((request, response) => response.end(request.headers.host), listenOptions);

describe('a name', () => {
  test('is resolved only once, so that a later answer cannot replace the checked address', async () => {
    const checked = await healthyServer();
    const rebound = await healthyServer({ host: '127.0.0.2', port: checked.port });
    const { lookups, resolve } = resolver(['127.0.0.1'], ['127.0.0.2'], ['169.254.169.254']);
    const answer = await probe(targetOf(`http://rebind.invalid:${checked.port}`), { clock: systemClock, resolve });
    expect(answer).toMatchObject({ ok: true });
    expect(lookups).toEqual(['rebind.invalid']);
    expect([checked.connections.length, rebound.connections.length]).toEqual([1, 0]);
  });

  test('stays in the Host header', async () => {
    const hosts: (string | undefined)[] = [];
    const server = await httpServer((request, response) => {
      hosts.push(request.headers.host);
      response.end();
    });
    const { resolve } = resolver(['127.0.0.1']);
    await probe(targetOf(`http://Node.Invalid:${server.port}`), { clock: systemClock, resolve });
    expect(hosts).toEqual([`node.invalid:${server.port}`]);
  });

  test.for([
    ['a public and a private address', false, ['8.8.8.8', '10.0.0.1'], '10.0.0.1'],
    ['a private and a public address', false, ['10.0.0.1', '8.8.8.8'], '10.0.0.1'],
    ['a private address and a metadata address', true, ['127.0.0.1', '169.254.169.254'], '169.254.169.254'],
    ['a metadata address mapped into IPv6', true, ['127.0.0.1', '::ffff:169.254.169.254'], '::ffff:169.254.169.254'],
    ['a link-local address with a zone', true, ['127.0.0.1', 'fe80::1%eth0'], 'fe80::1%eth0'],
    [
      'a forbidden address after those that would be tried',
      true,
      [...Array(9).fill('127.0.0.1'), '0.0.0.0'],
      '0.0.0.0',
    ],
    ['a text that is not an address', true, ['127.0.0.1', 'localhost'], 'localhost'],
  ] as const)('with %s is refused as a whole', async ([_what, allow_private, addresses, culprit]) => {
    const server = await healthyServer();
    const { resolve } = resolver([...addresses]);
    const target = targetOf(`http://mixed.invalid:${server.port}`, { allow_private });
    expect(await probe(target, { clock: systemClock, resolve })).toMatchObject({
      ok: false,
      because: 'refused_address',
      detail: expect.stringContaining(`${culprit} is refused`),
    });
    expect(server.connections).toEqual([]);
  });

  test('of a private address is refused with a remedy, of a metadata address without one', async () => {
    const detailFor = async (address: string) => {
      const { resolve } = resolver([address]);
      const target = targetOf('http://node.invalid', { allow_private: false });
      const answer = await probe(target, { clock: systemClock, resolve });
      return answer.ok ? 'ok' : answer.detail;
    };
    expect(await detailFor('10.0.0.1')).toContain('probe.allow_private');
    expect(await detailFor('169.254.169.254')).not.toContain('probe.allow_private');
  });

  test('without an address is unresolvable, whether the resolver throws or returns nothing', async () => {
    const resolvers: Resolve[] = [
      async () => [],
      async () => Promise.reject(new Error('ENOTFOUND')),
      () => {
        throw new Error('broken');
      },
    ];
    for (const resolve of resolvers) {
      const answer = await probe(targetOf('http://node.invalid'), { clock: systemClock, resolve });
      expect(answer).toMatchObject({
        ok: false,
        because: 'unresolvable',
        detail: expect.stringContaining('node.invalid'),
      });
    }
    expect(await probe(targetOf('http://nowhere.invalid'), { clock: systemClock })).toMatchObject({
      because: 'unresolvable',
    });
  });

  test('that does not resolve within the timeout of the probe times out', async () => {
    const clock = virtualClock();
    const answer = probe(targetOf('http://node.invalid', { timeout_seconds: 2 }), {
      clock,
      resolve: () => new Promise(() => {}),
    });
    await clock.advance(2_000);
    expect(await answer).toMatchObject({
      ok: false,
      because: 'timed_out',
      detail: expect.stringContaining('resolved'),
    });
    expect(clock.pendingTimers()).toBe(0);
  });

  test('that resolves late leaves less time for the answer', async () => {
    const clock = virtualClock();
    const server = await httpServer(() => {});
    const answer = probe(targetOf(`http://node.invalid:${server.port}`, { timeout_seconds: 2 }), {
      clock,
      resolve: () => new Promise((resolve) => clock.after(1_500, () => resolve(['127.0.0.1']))),
    });
    await clock.advance(1_500);
    await until('the connection', () => server.open() === 1);
    await clock.advance(500);
    expect(await answer).toMatchObject({ ok: false, because: 'timed_out' });
  });
});

describe('a name with several addresses', () => {
  test('tries the next address if one refuses the connection', async () => {
    const server = await healthyServer({ host: '127.0.0.2' });
    const { resolve } = resolver(['127.0.0.1', '127.0.0.2']);
    const answer = await probe(targetOf(`http://node.invalid:${server.port}`), { clock: systemClock, resolve });
    expect(answer).toMatchObject({ ok: true });
  });

  test('tries no other address once one has accepted the connection', async () => {
    const first = await httpServer((_request, response) => response.destroy());
    const second = await healthyServer({ host: '127.0.0.2', port: first.port });
    const { resolve } = resolver(['127.0.0.1', '127.0.0.2']);
    const answer = await probe(targetOf(`http://node.invalid:${first.port}`), { clock: systemClock, resolve });
    expect(answer).toMatchObject({ ok: false, because: 'unreachable' });
    expect(second.connections).toEqual([]);
  });

  test('tries at most four addresses', async () => {
    const port = await freePort();
    const addresses = Array.from({ length: 50 }, (_, index) => `127.0.1.${index + 1}`);
    const { resolve } = resolver(addresses);
    const answer = await probe(targetOf(`http://node.invalid:${port}`), { clock: systemClock, resolve });
    expect(answer).toMatchObject({ ok: false, because: 'unreachable' });
    expect(JSON.stringify(answer).match(/ECONNREFUSED/g)).toHaveLength(4);
  });

  test('gives an address that drops packets half of the time, then tries the other', async () => {
    const clock = virtualClock();
    const port = await silentPort();
    await healthyServer({ host: '127.0.0.2', port });
    const { resolve } = resolver(['127.0.0.1', '127.0.0.2']);
    const answer = probe(targetOf(`http://node.invalid:${port}`, { timeout_seconds: 2 }), { clock, resolve });
    await clock.advance(1_000);
    expect(await answer).toEqual({ ok: true, status: 200, milliseconds: 1_000 });
    expect(clock.pendingTimers()).toBe(0);
  });

  test('times out if the only address drops packets', async () => {
    const clock = virtualClock();
    const port = await silentPort();
    const answer = probe(targetOf(`http://127.0.0.1:${port}`, { timeout_seconds: 2 }), { clock });
    await clock.advance(2_000);
    expect(await answer).toMatchObject({ ok: false, because: 'timed_out' });
  });

  test('reaches localhost on the address family that has a server', async () => {
    const server = await healthyServer();
    expect(await probe(targetOf(`http://localhost:${server.port}`), { clock: systemClock })).toMatchObject({
      ok: true,
    });
  });
});

describe('an address in the URL', () => {
  const failingResolve: Resolve = (name) => expect.fail(`${name} was looked up`);
  const spellings = ['127.0.0.1', '2130706433', '0x7f000001', '0177.0.0.1', '127.1', '１２７.0.0.1', '127.0.0.1.'];

  test.for(spellings)('is refused as http://%s unless private addresses are allowed', async (host) => {
    const server = await healthyServer();
    const target = targetOf(`http://${host}:${server.port}`);
    const deps = { clock: systemClock, resolve: failingResolve };
    expect(await probe({ ...target, allow_private: false }, deps)).toMatchObject({ because: 'refused_address' });
    expect(server.connections).toEqual([]);
    expect(await probe(target, deps)).toMatchObject({ ok: true });
  });

  test.for([
    ...['169.254.169.254', '2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '[::ffff:169.254.169.254]'],
    ...['[64:ff9b::a9fe:a9fe]', '[2002:a9fe:a9fe::1]', '[fd00:ec2::254]', '0.0.0.0', '0', '[::]', '255.255.255.255'],
  ])('refuses http://%s even if private addresses are allowed', async (host) => {
    const answer = await probe(targetOf(`http://${host}`), { clock: systemClock, resolve: failingResolve });
    expect(answer).toMatchObject({ ok: false, because: 'refused_address' });
  });

  const hasIpv6 = Object.values(networkInterfaces()).some((each) => each?.some(({ address }) => address === '::1'));

  test.skipIf(!hasIpv6)('is probed if it is IPv6 loopback and private addresses are allowed', async () => {
    const hosts: (string | undefined)[] = [];
    const server = await httpServer(
      (request, response) => {
        hosts.push(request.headers.host);
        response.end();
      },
      { host: '::1' },
    );
    const target = targetOf(`http://[0:0::1]:${server.port}`);
    const deps = { clock: systemClock, resolve: failingResolve };
    expect(await probe({ ...target, allow_private: false }, deps)).toMatchObject({ because: 'refused_address' });
    expect(await probe(target, deps)).toMatchObject({ ok: true });
    expect(hosts).toEqual([`[::1]:${server.port}`]);
  });

  test('is probed if it is IPv4 mapped into IPv6', async () => {
    const server = await healthyServer();
    const target = targetOf(`http://[::ffff:127.0.0.1]:${server.port}`);
    expect(await probe(target, { clock: systemClock, resolve: failingResolve })).toMatchObject({ ok: true });
  });
});
