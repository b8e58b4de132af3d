/** Every program reports the version of package.json, which is written nowhere else. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { packageRoot } from '../../src/base/files/package-root.ts';
import { createLog } from '../../src/base/telemetry/log.ts';
import { defaultBatcherLimits } from '../../src/relay/batcher.ts';
import { startRelay } from '../../src/relay/relay.ts';
import { allocate, waitForStatus } from '../support/allocations.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';

let server: SpawnedServer;
let version: string;
beforeAll(async () => {
  version = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')).version;
  server = await spawnServer();
});
afterAll(() => server?.stop());

const read = async (url: string): Promise<string> =>
  (await fetch(url, { headers: { authorization: `Bearer ${server.token}` } })).text();

test('the command line reports the version', async () => {
  const { stdout } = await promisify(execFile)(join(packageRoot, 'bin/slipway'), ['--version']);
  expect(stdout).toBe(`${version}\n`);
});

test('the server reports the version in health, session, settings, metrics and API description', async () => {
  expect(JSON.parse(await read(`${server.url}/healthz`))).toMatchObject({ version });
  // The console shows the version of the session and of the settings.
  expect(await server.client.call('session-create', { body: { token: server.token } })).toMatchObject({ version });
  expect(await server.client.call('settings-get', {})).toMatchObject({ version });
  expect(await read(`${server.url}/metrics`)).toContain(`\nslipway_build_info{version="${version}",node="`);
  expect(JSON.parse(await read(`${server.url}/openapi.json`)).info).toMatchObject({ version });
});

test('an agent reports the version, which its node shows', async () => {
  const id = await allocate(server.client, 'local');
  const { node_id } = await waitForStatus(server.client, id, 'active');
  const agent_version = `slipway-agent/${version}`;
  const node = await server.client.call('node-get', { params: { id: node_id ?? '' } });
  expect(node).toMatchObject({ agent_version });
  expect((await server.client.call('node-list', {})).items).toMatchObject([{ agent_version }]);
  await server.client.call('allocation-release', { params: { id } });
  await waitForStatus(server.client, id, 'released');
});

test('a relay reports the version in its metrics', async () => {
  const options = { ...{ ca: null, tls_cert: null, tls_key: null, token: null }, behind_proxy: false, log_level: '' };
  const relay = await startRelay(
    { ...options, host: '127.0.0.1', port: 0, server_urls: [server.url] },
    { clock: systemClock, log: createLog({ level: 'silent' }), limits: defaultBatcherLimits },
  );
  try {
    expect(await read(`${relay.url}/metrics`)).toContain(`\nslipway_relay_build_info{version="${version}"} 1\n`);
  } finally {
    await relay.stop();
  }
});
