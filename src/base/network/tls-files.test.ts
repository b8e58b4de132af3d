/** Tests that a running server uses renewed certificates. */
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

async function writeFiles({ cert, key }: Certificate): Promise<void> {
  await writeFile(files().tls_cert, cert);
  await writeFile(files().tls_key, key);
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'slipway-tls-'));
  await writeFiles(selfSigned('first.example'));
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

async function servedName(): Promise<string> {
  const socket = await open();
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

it('uses renewed files for new connections and leaves open ones alone', async () => {
  const openConnection = await open();
  expect(await servedName()).toBe('first.example');
  await writeFiles(selfSigned('second.example'));
  await until('the new certificate to be served', async () => (await servedName()) === 'second.example');
  let answer = '';
  openConnection.on('data', (chunk) => {
    answer += chunk;
  });
  openConnection.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  await until('the open connection to be answered', () => answer.includes('served'));
  expect(openConnection.getPeerCertificate().subject.CN).toBe('first.example');
  openConnection.destroy();
});

it('keeps the old certificate if the new files do not match or are missing, and logs a missing file once', async () => {
  await writeFile(files().tls_cert, selfSigned('other.example').cert);
  await until('the refusal to be logged', () => logged.some((text) => text.includes('cannot be used')));
  expect(await servedName()).toBe('first.example');
  await rm(files().tls_key);
  await until('the missing file to be logged', () => logged.some((text) => text.includes('cannot read')));
  expect(await servedName()).toBe('first.example');
  await writeFiles(selfSigned('third.example'));
  await until('the matching files to be used', async () => (await servedName()) === 'third.example');
  expect(logged.filter((text) => text.includes('cannot read'))).toHaveLength(1);
});

it('returns null if no files are configured', async () => {
  expect(await openTlsFiles({ tls_cert: null, tls_key: null })).toBeNull();
});
