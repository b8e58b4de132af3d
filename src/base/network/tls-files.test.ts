/** Certificates renewed under a running server. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { type Certificate, selfSigned } from '../../probe/testing/self-signed.ts';
import { systemClock } from '../clock.ts';
import type { Log } from '../telemetry/log.ts';
import { openTlsFiles } from './tls-files.ts';

let dir: string;
let server: Server;
let stop: () => void;
const logged: string[] = [];
const files = () => ({ tls_cert: join(dir, 'cert.pem'), tls_key: join(dir, 'key.pem') });

async function put({ cert, key }: Certificate): Promise<void> {
  await writeFile(files().tls_cert, cert);
  await writeFile(files().tls_key, key);
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'slipway-tls-'));
  await put(selfSigned('first.example'));
  const tls = await openTlsFiles(files());
  if (!tls) throw new Error('no TLS');
  server = createServer({ cert: tls.cert, key: tls.key }, (_, reply) => reply.end('served'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const note = (_: object, text: string) => void logged.push(text);
  const log = { info: note, warn: note } as unknown as Log;
  stop = tls.follow(server, { clock: systemClock, log, every_ms: 20 });
});
afterEach(async () => {
  stop();
  server.closeAllConnections();
  server.close();
  logged.length = 0;
  await rm(dir, { recursive: true });
});

const open = () =>
  new Promise<TLSSocket>((resolve, reject) => {
    const { port } = server.address() as AddressInfo;
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => resolve(socket));
    socket.on('error', reject);
  });

async function nameNow(): Promise<string> {
  const socket = await open();
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

it('uses renewed files for new connections and leaves open ones alone', async () => {
  const kept = await open();
  expect(await nameNow()).toBe('first.example');
  await put(selfSigned('second.example'));
  await until('the new certificate to be served', async () => (await nameNow()) === 'second.example');
  let answer = '';
  kept.on('data', (chunk) => {
    answer += chunk;
  });
  kept.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  await until('the kept connection to be answered', () => answer.includes('served'));
  expect(kept.getPeerCertificate().subject.CN).toBe('first.example');
  kept.destroy();
});

it('keeps the old certificate if the new files do not match, and logs it once', async () => {
  await writeFile(files().tls_cert, selfSigned('other.example').cert);
  await until('the refusal to be logged', () => logged.some((text) => text.includes('cannot be used')));
  expect(await nameNow()).toBe('first.example');
  await rm(files().tls_key);
  await until('the missing file to be logged', () => logged.some((text) => text.includes('cannot read')));
  expect(await nameNow()).toBe('first.example');
  await put(selfSigned('third.example'));
  await until('the good ones to be used', async () => (await nameNow()) === 'third.example');
  expect(logged.filter((text) => text.includes('cannot read'))).toHaveLength(1);
});

it('is off without files', async () => {
  expect(await openTlsFiles({ tls_cert: null, tls_key: null })).toBeNull();
});
