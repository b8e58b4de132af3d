/** The server and the relay use renewed certificates without a restart, but no unusable ones. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ServerStatus } from '../../src/contract/fleet/server-status.ts';
import { type Certificate, certificateAuthority } from '../../src/probe/testing/self-signed.ts';
import { type TestDatabase, testDatabase } from '../support/database.ts';
import { type SpawnedProgram, spawnMain, spawnProgram } from '../support/server.ts';
import { until } from '../support/until.ts';

const relayProgram = fileURLToPath(new URL('../../src/relay/main.ts', import.meta.url));
const authority = certificateAuthority('operator');

let directory: string;
let database: TestDatabase;
let tlsArgs: string[];
beforeEach(async () => {
  database = await testDatabase();
  directory = await mkdtemp(join(tmpdir(), 'slipway-certificates-'));
  tlsArgs = ['--port', '0', '--log-level', 'info'];
  tlsArgs.push('--tls-cert', join(directory, 'cert.pem'), '--tls-key', join(directory, 'key.pem'));
  await writePair(authority.issue('first.example'));
});
afterEach(async () => {
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

async function writePair({ cert, key }: Partial<Certificate>): Promise<void> {
  if (cert) await writeFile(join(directory, 'cert.pem'), cert);
  if (key) await writeFile(join(directory, 'key.pem'), key);
}

const servedName = (url: string) =>
  new Promise<string>((resolve, reject) => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });

async function readStatus(url: string): Promise<ServerStatus> {
  const token = (await readFile(join(directory, 'data', 'admin.token'), 'utf8')).trim();
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const call = request(`${url}/v1/status`, { rejectUnauthorized: false, headers }, async (reply) => {
      let text = '';
      for await (const chunk of reply) text += chunk;
      resolve(JSON.parse(text));
    });
    call.on('error', reject);
    call.end();
  });
}

/** Renews the files, breaks them, and renews them again without a signal. */
async function renewAndBreak(url: string, { child, output }: SpawnedProgram): Promise<void> {
  await writePair(authority.issue('renewed.example'));
  child.kill('SIGHUP');
  await until('the renewed certificate', async () => (await servedName(url)) === 'renewed.example');

  await writePair({ cert: authority.issue('mismatched.example').cert });
  child.kill('SIGHUP');
  await until('the refusal', () => output().includes('the new TLS files cannot be used'));
  expect(await servedName(url)).toBe('renewed.example');

  const last = authority.issue('last.example');
  await writePair(last);
  await until('the files to be noticed without a signal', async () => (await servedName(url)) === 'last.example');
}

it('the server uses renewed files, and its status shows the one in use', async () => {
  const server = await spawnMain([...tlsArgs, '--data-dir', join(directory, 'data'), '--database-url', database.url]);
  try {
    expect(await servedName(server.url)).toBe('first.example');
    await renewAndBreak(server.url, server);
    const { certificate, problems } = await readStatus(server.url);
    expect(certificate?.ends_at).toBe('2049-12-31T23:59:59.000Z');
    expect(problems.filter(({ code }) => code.startsWith('certificate'))).toEqual([]);

    await writePair(authority.issueExpired('expired.example'));
    server.child.kill('SIGHUP');
    const codes = async () => (await readStatus(server.url)).problems.map(({ code }) => code);
    await until('the problem', async () => (await codes()).includes('certificate_expired'));
    expect((await readStatus(server.url)).certificate?.ends_at).toBe('2021-01-01T00:00:00.000Z');
    await until('the log', () => server.output().includes('The certificate has expired'));
  } finally {
    await server.end('SIGTERM');
  }
});

it('the relay uses renewed files', async () => {
  const relay = spawnProgram(['--server', 'http://127.0.0.1:9', ...tlsArgs], { program: relayProgram });
  try {
    const url = await until('the relay', () => /Relay +(https\S+)/.exec(relay.output())?.[1]);
    expect(await servedName(url)).toBe('first.example');
    await renewAndBreak(url, relay);
  } finally {
    await relay.end('SIGTERM');
  }
});
