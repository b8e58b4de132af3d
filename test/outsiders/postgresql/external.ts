/** A PostgreSQL of another version than the embedded one, started like an operator's own server. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmod, chown, cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { runsAsRoot, unprivilegedAccount } from '../../../src/store/pg/embedded/account.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

export interface ExternalPostgres {
  url: string;
  stop(): Promise<void>;
}

/** The settings that the documentation asks for; the rest are defaults. */
const settings = {
  max_connections: '200',
  max_locks_per_transaction: '256',
  fsync: 'off',
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
};

export async function startExternal(place: string): Promise<ExternalPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-postgresql-'));
  // PostgreSQL does not run as root, and the other account may not enter the repository.
  const account = runsAsRoot() ? unprivilegedAccount() : undefined;
  const as = account ? { uid: account.uid, gid: account.gid } : {};
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
  execFileSync(join(programs, 'bin/initdb'), initdb, { cwd: directory, stdio: 'pipe', ...as });
  const port = await freePort();
  const args = Object.entries({ ...settings, port: String(port) }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  const server: ChildProcess = spawn(join(programs, 'bin/postgres'), ['-D', data, ...args], { stdio: 'ignore', ...as });
  const url = `postgres://owner:owner@127.0.0.1:${port}/postgres`;
  const ended = new Promise((resolve) => server.once('exit', resolve));
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
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
