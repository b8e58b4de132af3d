import type { TLSSocket } from 'node:tls';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { type ProbeTarget, probe } from './http-probe.ts';
import { httpServer, tlsServer } from './testing/loopback-servers.ts';
import { selfSigned } from './testing/self-signed.ts';

const trusted = selfSigned('node.invalid');
const defaultCertificates = getCACertificates('default');
beforeAll(() => setDefaultCACertificates([...defaultCertificates, trusted.cert]));
afterAll(() => setDefaultCACertificates(defaultCertificates));

const probeHost = (host: string, port: number) => {
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
    const serverNames: unknown[] = [];
    const server = await tlsServer(trusted, (request, response) => {
      serverNames.push([(request.socket as TLSSocket).servername, request.headers.host]);
      response.end();
    });
    expect(await probeHost(host, server.port)).toMatchObject({ ok: true, status: 200 });
    expect(serverNames).toEqual([['node.invalid', `${host}:${server.port}`]]);
  },
);

test('does not resume TLS sessions', async () => {
  const reused: boolean[] = [];
  const server = await tlsServer(trusted, (request, response) => {
    reused.push((request.socket as TLSSocket).isSessionReused());
    response.end();
  });
  await probeHost('node.invalid', server.port);
  await probeHost('node.invalid', server.port);
  expect(reused).toEqual([false, false]);
});

test.for([
  ['a host that the certificate does not name', trusted, 'other.invalid'],
  ['an address that the certificate does not name', trusted, '127.0.0.1'],
  ['a host with an untrusted certificate', selfSigned('node.invalid'), 'node.invalid'],
] as const)('%s is unreachable', async ([_what, certificate, host]) => {
  let requests = 0;
  const server = await tlsServer(certificate, (_request, response) => {
    requests++;
    response.end();
  });
  expect(await probeHost(host, server.port)).toMatchObject({ ok: false, because: 'unreachable' });
  expect(requests).toBe(0);
});

test('a server without TLS is unreachable', async () => {
  const server = await httpServer((_request, response) => response.end());
  expect(await probeHost('node.invalid', server.port)).toMatchObject({ ok: false, because: 'unreachable' });
});
