/** A start that fails for a known reason ends in a sentence and a remedy, without a stack trace. */
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { spawnMain, spawnProgram } from '../support/server.ts';

let directory: string;
let database: TestDatabase;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-start-'));
  await chmod(directory, 0o755);
  database = await testDatabase();
});
afterEach(async () => {
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

const dataDir = (name = 'data') => ['--data-dir', join(directory, name), '--port', '0'];

it.for<[fault: string, change: (url: URL) => unknown, reason: RegExp, remedy: RegExp]>([
  [
    'a wrong password',
    (url) => {
      url.password = 'wrong';
    },
    /the database refuses this user: .*password/,
    /user and password/,
  ],
  [
    'an unknown user',
    (url) => {
      url.username = 'nobody-here';
    },
    /the database refuses this user/,
    /user and password/,
  ],
  [
    'an unknown database',
    (url) => {
      url.pathname = '/nothing';
    },
    /the database does not exist: .*nothing/,
    /create database/,
  ],
  [
    'an unknown host',
    (url) => {
      url.hostname = 'nowhere.invalid';
    },
    /the host of the database is unknown: .*nowhere/,
    /Check the host/,
  ],
  [
    'a closed port',
    async (url) => {
      url.port = String(await freePort());
    },
    /the database does not answer: .*ECONNREFUSED/,
    /host and port/,
  ],
])('names %s and its remedy', async ([, change, reason, remedy]) => {
  const url = new URL(database.url);
  url.search = '';
  await change(url);
  const server = spawnProgram([...dataDir(), '--database-url', url.href]);
  expect(await server.ended).toBe(1);
  expect(server.output()).toMatch(reason);
  expect(server.output()).toMatch(remedy);
  expect(server.output()).not.toMatch(/^\s+at /m);
  expect(server.stdout()).toBe('');
});

it('refuses a copy of a data directory whose server runs, and names that server', async () => {
  const first = await spawnMain(dataDir());
  await first.end('SIGTERM');
  // `cp -a` keeps the owner of the files, which PostgreSQL checks.
  execFileSync('cp', ['-a', join(directory, 'data'), join(directory, 'copy')]);
  const restartedServer = await spawnMain(dataDir());
  const copy = spawnProgram(dataDir('copy'));
  expect(await copy.ended).toBe(1);
  expect(copy.output()).toContain(`process ${restartedServer.child.pid} on ${join(directory, 'data')}`);
  await restartedServer.end('SIGTERM');
});
