/** A server with an external database needs no writable directory. */
import { chmod, chown, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { openKeyRing } from '../../src/base/credentials/key-ring.ts';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { type TestDatabase, testDatabase } from '../support/database.ts';
import { isRoot, nobodyUid } from '../support/run/embedded-servers.ts';
import { spawnMain, spawnProgram } from '../support/server.ts';

const admin_token = 'a-token-that-only-the-environment-has';

let directory: string;
let unwritableDirectory: string;
let key_file: string;
let database: TestDatabase;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-read-only-'));
  await chmod(directory, 0o755);
  unwritableDirectory = join(directory, 'closed');
  await mkdir(unwritableDirectory);
  key_file = join(directory, 'keys.json');
  openKeyRing(key_file, systemClock);
  if (isRoot) await chown(key_file, nobodyUid, nobodyUid);
  await chmod(unwritableDirectory, 0o555);
  database = await testDatabase();
});
afterEach(async () => {
  await database.drop();
  await chmod(unwritableDirectory, 0o755);
  await rm(directory, { recursive: true });
});

/** Over TCP, because only the account of the database may enter the directory of its socket. */
function addressOverTcp(): string {
  const url = new URL(database.url);
  url.search = '';
  return url.href;
}

const commandLine = (...more: string[]) => [
  '--port',
  '0',
  '--data-dir',
  join(unwritableDirectory, 'data'),
  '--database-url',
  addressOverTcp(),
  ...more,
];
/** Root may write everywhere, so tests that run as root start the server as another account. */
const optionsWith = (env: { SLIPWAY_ADMIN_TOKEN?: string }) => ({
  env: { HOME: unwritableDirectory, ...env },
  ...(isRoot && { account: { uid: nobodyUid, gid: nobodyUid } }),
});

it('starts with a key file and an admin token, and writes nothing', async () => {
  const server = await spawnMain(
    commandLine('--key-file', key_file),
    optionsWith({ SLIPWAY_ADMIN_TOKEN: admin_token }),
  );
  expect(server.output()).toContain('with the token in SLIPWAY_ADMIN_TOKEN');
  const client = createClient({ base_url: server.url, token: admin_token, addresses: routes });
  expect((await client.call('node-list', {})).items).toEqual([]);
  await server.end('SIGTERM');
  expect(await server.ended).toBe(0);
  expect(await readdir(unwritableDirectory)).toEqual([]);
});

it.for([
  { missing: 'key file', args: () => [], env: { SLIPWAY_ADMIN_TOKEN: admin_token }, remedy: /--key-file/ },
  { missing: 'admin token', args: () => ['--key-file', key_file], env: {}, remedy: /Set SLIPWAY_ADMIN_TOKEN/ },
])('names a missing $missing that it cannot create', async ({ args, env, remedy }) => {
  const server = spawnProgram(commandLine(...args()), optionsWith(env));
  expect(await server.ended).toBe(2);
  expect(server.output()).toMatch(remedy);
  expect(server.output()).toContain(unwritableDirectory);
  expect(server.output()).not.toMatch(/^\s+at /m);
});
