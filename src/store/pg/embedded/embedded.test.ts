import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { chown, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import {
  asPlainUser,
  endProcess,
  endServers,
  isRoot,
  newDirectory,
  nobodyUid,
  query,
  serverProgram,
  startServer,
} from '../../../../test/support/run/embedded-servers.ts';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import { startEmbeddedPostgres } from './embedded.ts';
import { isProcessAlive } from './postmaster.ts';

afterEach(endServers);

test('starts in an empty directory and keeps its data across a restart', async () => {
  const dataDir = await newDirectory();
  const startedAt = systemClock.monotonicMs();
  const first = await startServer(dataDir);
  await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
  console.log(
    `from an empty directory to the first query: ${Math.round(systemClock.monotonicMs() - startedAt)} ms, a Node start included`,
  );
  expect(first.adopted).toBe(false);
  expect(statSync(join(first.clusterDir, 'slipway-password')).mode & 0o777).toBe(0o600);

  await endProcess(first.child, 'SIGTERM');
  expect(isProcessAlive(first.pid)).toBe(false);

  const second = await startServer(dataDir);
  expect(second.adopted).toBe(false);
  expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
});

test('requires the password, and listens only on loopback and on a private socket', async () => {
  const { url, application_url, clusterDir } = await startServer(await newDirectory());
  for (const address of [url, application_url]) {
    const wrong = new URL(address);
    wrong.password = 'guess';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  }
  expect(
    await query(application_url, 'SELECT rolsuper, rolcreaterole FROM pg_roles WHERE rolname = current_user'),
  ).toEqual([{ rolsuper: false, rolcreaterole: false }]);
  await expect(query(application_url, 'CREATE TABLE own ()')).rejects.toMatchObject({ code: '42501' });
  expect(
    await query(url, "SELECT current_setting('listen_addresses') a, current_setting('unix_socket_directories') s"),
  ).toEqual([{ a: '127.0.0.1', s: clusterDir }]);
  expect(await query(url, 'SELECT inet_client_addr() AS through_the_network')).toEqual([{ through_the_network: null }]);
  const { uid, mode } = statSync(clusterDir);
  expect(uid).not.toBe(0);
  expect(mode & 0o077).toBe(0);
});

test('adopts the live postmaster after kill -9 of the server', async () => {
  const dataDir = await newDirectory();
  const first = await startServer(dataDir);
  await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
  await endProcess(first.child, 'SIGKILL');
  expect(isProcessAlive(first.pid)).toBe(true);

  const second = await startServer(dataDir);
  expect(second).toMatchObject({ adopted: true, pid: first.pid, url: first.url });
  expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);

  await endProcess(second.child, 'SIGTERM');
  expect(isProcessAlive(first.pid)).toBe(false);
});

test("refuses a second server on the same directory, and names the first one's process id", async () => {
  const dataDir = await newDirectory();
  const first = await startServer(dataDir);
  const second = await startServer(dataDir);
  expect(second.refusalCode).toBe('data_directory_owned');
  expect(second.message).toContain(`process ${first.child.pid}`);
  expect(second.message).toContain(dataDir);
  expect(second.remedy).toContain('--data-dir');
  await endProcess(second.child, 'SIGTERM');
  expect(await query(first.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

test('lets exactly one of several concurrent starts own an empty directory', async () => {
  const dataDir = await newDirectory();
  const servers = await Promise.all([1, 2, 3].map(() => startServer(dataDir)));
  expect(servers.map(({ refusalCode }) => refusalCode).sort()).toEqual([
    'data_directory_owned',
    'data_directory_owned',
    undefined,
  ]);
  const winner = servers.find(({ refusalCode }) => refusalCode === undefined);
  expect(await query(winner?.url ?? '', 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect((await readdir(dataDir)).sort()).toEqual(['postgres', 'postgres.log']);
});

test.for(['dead', 'foreign'])('starts despite the pid file of a %s process', async (kind) => {
  const dataDir = await newDirectory();
  const first = await startServer(dataDir);
  await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
  const { uid, gid } = statSync(first.clusterDir);
  const pidFile = join(first.clusterDir, 'postmaster.pid');
  const content = readFileSync(pidFile, 'utf8');
  await endProcess(first.child, 'SIGKILL');
  process.kill(first.pid, 'SIGKILL');
  await until('the postmaster to exit', () => !isProcessAlive(first.pid));

  // The process has the same account, so PostgreSQL would take it for a live postmaster.
  const other = spawn('sleep', ['60'], { uid, gid });
  if (kind === 'dead') await endProcess(other, 'SIGKILL');
  await writeFile(pidFile, content.replace(/^\d+/, String(other.pid)));
  await chown(pidFile, uid, gid);
  const second = await startServer(dataDir);
  expect(second.adopted).toBe(false);
  expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
  await endProcess(other, 'SIGKILL');
});

test('resolves `lost` when the lock on the data directory is lost, but not after `stop()`', async () => {
  const dataDir = await newDirectory();
  const start = () => startEmbeddedPostgres({ dataDir, clock: systemClock });
  const first = await start();
  await query(
    first.url,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'slipway owner%'",
  );
  expect(await first.lost).toBeInstanceOf(Error);
  await first.stop();

  const second = await start();
  const lost = second.lost.then(() => 'lost');
  await second.stop();
  expect(await Promise.race([lost, Promise.resolve('kept')])).toBe('kept');
});

test('starts after an earlier start was killed while it created the cluster', async () => {
  const dataDir = await newDirectory();
  const killed = spawn(process.execPath, [serverProgram, dataDir], { stdio: 'ignore' });
  await until('the first start to begin creating the cluster', () => readDrafts(dataDir).length > 0);
  await endProcess(killed, 'SIGKILL');
  const next = await startServer(dataDir);
  expect(await query(next.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect(readDrafts(dataDir)).toEqual([]);
});

test('refuses a directory of another PostgreSQL version', async () => {
  const dataDir = await newDirectory();
  await mkdir(join(dataDir, 'postgres'));
  await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '9\n');
  const server = await startServer(dataDir, await asPlainUser(dataDir));
  expect(server.refusalCode).toBe('data_directory_unusable');
  expect(server.message).toContain('PostgreSQL 9');
  expect(existsSync(join(dataDir, 'postgres', 'PG_VERSION'))).toBe(true);
});

test('keeps the cluster in the data directory if a plain user starts it', async () => {
  const dataDir = await newDirectory();
  const server = await startServer(dataDir, await asPlainUser(dataDir));
  expect(server.clusterDir).toBe(join(dataDir, 'postgres'));
  expect(server.log).toEqual([]);
  expect(statSync(server.clusterDir).uid).toBe(isRoot ? nobodyUid : process.getuid?.());
  expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

test('refuses a data directory that a plain user cannot write', async () => {
  const closed = await newDirectory(0o555);
  const server = await startServer(join(closed, 'data'), isRoot ? { uid: nobodyUid, gid: nobodyUid } : {});
  expect(server.refusalCode).toBe('data_directory_unwritable');
  expect(server.message).toContain(closed);
  expect(server.remedy).toContain('--data-dir');
});

function readDrafts(dataDir: string): string[] {
  return readdirSync(dataDir).filter((name) => name.startsWith('.postgres-new-'));
}

test('stops the postmaster when the process exits without stopping it', async () => {
  const { child, pid } = await startServer(await newDirectory());
  await endProcess(child, 'SIGQUIT');
  await until('the postmaster to exit', () => !isProcessAlive(pid));
});
