import type { TLSSocket } from 'node:tls';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { type ProbeTarget, probe } from './http-probe.ts';
import { httpServer, tlsServer } from './testing/loopback-servers.ts';
import { selfSigned } from './testing/self-signed.ts';

const trusted = selfSigned('node.invalid');
const usual = getCACertificates('default');
beforeAll(() => setDefaultCACertificates([...usual, trusted.cert]));
afterAll(() => setDefaultCACertificates(usual));

const askFor = (host: string, port: number) => {
  const target: ProbeTarget = {
    base_url: `https://${host}:${port}`,
    path: '/',
    timeout_seconds: 60,
    allow_private: true,
  };
  return probe(target, { clock: systemClock, resolve: async () => ['127.0.0.1'] });
};

test.for(['node.invalid', 'node.invalid.'])(
  'sends the name of %s in SNI and checks the certificate against it',
  async (host) => {
    const greeted: unknown[] = [];
    const server = await tlsServer(trusted, (request, response) => {
      greeted.push([(request.socket as TLSSocket).servername, request.headers.host]);
      response.end();
    });
    expect(await askFor(host, server.port)).toMatchObject({ ok: true, status: 200 });
    expect(greeted).toEqual([['node.invalid', `${host}:${server.port}`]]);
  },
);

test('does not resume TLS sessions', async () => {
  const reused: boolean[] = [];
  const server = await tlsServer(trusted, (request, response) => {
    reused.push((request.socket as TLSSocket).isSessionReused());
    response.end();
  });
  await askFor('node.invalid', server.port);
  await askFor('node.invalid', server.port);
  expect(reused).toEqual([false, false]);
});

test.for([
  ['another name', trusted, 'other.invalid'],
  ['an address that the certificate does not name', trusted, '127.0.0.1'],
  ['a certificate that nobody vouches for', selfSigned('node.invalid'), 'node.invalid'],
] as const)('%s is unreachable', async ([_what, certificate, host]) => {
  let requests = 0;
  const server = await tlsServer(certificate, (_request, response) => {
    requests++;
    response.end();
  });
  expect(await askFor(host, server.port)).toMatchObject({ ok: false, because: 'unreachable' });
  expect(requests).toBe(0);
});

test('a server without TLS is unreachable', async () => {
  const server = await httpServer((_request, response) => response.end());
  expect(await askFor('node.invalid', server.port)).toMatchObject({ ok: false, because: 'unreachable' });
});
