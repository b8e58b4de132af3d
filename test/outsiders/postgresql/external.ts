/** Starts a PostgreSQL of another version than the embedded one, as an operator would. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmod, chown, cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { ensureUnprivilegedAccount, runsAsRoot } from '../../../src/store/pg/embedded/account.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

export interface ExternalPostgres {
  url: string;
  stop(): Promise<void>;
}

/**
 * Settings that differ from the defaults. The number of locks is what the documentation asks for;
 * without fsync the tests run faster.
 */
const settings = {
  max_connections: '200',
  max_locks_per_transaction: '256',
  fsync: 'off',
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
};

export async function startExternal(place: string): Promise<ExternalPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-postgresql-'));
  // PostgreSQL refuses to run as root. The unprivileged account may not be able to read the
  // repository, so the programs are copied.
  const account = runsAsRoot() ? ensureUnprivilegedAccount() : undefined;
  const runAs = account ? { uid: account.uid, gid: account.gid } : {};
  await chmod(directory, 0o755);
  const programs = join(directory, 'programs');
  await cp(join(place, 'native'), programs, { recursive: true, verbatimSymlinks: true });
  if (account) await chown(directory, account.uid, account.gid);
  const passwordFile = join(directory, 'password');
  await writeFile(passwordFile, 'owner\n', { mode: 0o644 });
  const data = join(directory, 'data');
  const initdb = [
    '-D',
    data,
    '-U',
    'owner',
    '-A',
    'scram-sha-256',
    `--pwfile=${passwordFile}`,
    '-E',
    'UTF8',
    '--no-sync',
  ];
  execFileSync(join(programs, 'bin/initdb'), initdb, { cwd: directory, stdio: 'pipe', ...runAs });
  const port = await freePort();
  const args = Object.entries({ ...settings, port: String(port) }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  const server: ChildProcess = spawn(join(programs, 'bin/postgres'), ['-D', data, ...args], {
    stdio: 'ignore',
    ...runAs,
  });
  const url = `postgres://owner:owner@127.0.0.1:${port}/postgres`;
  const exited = new Promise((resolve) => server.once('exit', resolve));
  await until('PostgreSQL to answer', async () => {
    const client = new Client({ connectionString: url });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.end();
      return true;
    } catch {
      return undefined;
    }
  });
  return {
    url,
    async stop() {
      server.kill('SIGINT');
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
