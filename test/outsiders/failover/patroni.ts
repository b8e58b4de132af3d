/**
 * Two PostgreSQL servers that Patroni manages, with etcd as its store, behind HAProxy, which sends
 * connections to the primary. Patroni promotes the standby, and copies it to a new one itself.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Outsider } from '../../../scripts/setup/outsiders.mjs';
import { ensureUnprivilegedAccount, runsAsRoot } from '../../../src/store/pg/embedded/account.ts';
import { withClient } from '../../support/database.ts';
import { freePort } from '../../support/free-port.ts';
import { signalPostgres } from '../../support/postgres-process.ts';
import { until } from '../../support/until.ts';
import type { FailoverCluster } from './cluster.ts';

const superuser = 'owner';
/** The smallest values that Patroni accepts: it notices a dead primary within this time. */
const ttlSeconds = 20;
const patience = { seconds: 120 };

interface Member {
  name: string;
  port: number;
  apiPort: number;
  data: string;
  config: string;
  patroni?: ChildProcess;
}

interface Settings {
  member: Pick<Member, 'name' | 'port' | 'apiPort' | 'data'>;
  etcdPort: number;
  programs: string;
  directory: string;
}

/** JSON is valid YAML. */
const patroniConfig = ({ member: { name, port, apiPort, data }, etcdPort, programs, directory }: Settings): string =>
  JSON.stringify({
    scope: 'slipway',
    name,
    restapi: { listen: `127.0.0.1:${apiPort}`, connect_address: `127.0.0.1:${apiPort}` },
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: {
        ttl: ttlSeconds,
        loop_wait: 2,
        retry_timeout: 5,
        synchronous_mode: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: { max_connections: 200, max_locks_per_transaction: 256, wal_log_hints: 'on', fsync: 'off' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { auth: 'trust' }],
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: data,
      bin_dir: join(programs, 'bin'),
      pgpass: join(directory, `${name}.pgpass`),
      authentication: { superuser: { username: superuser }, replication: { username: 'replicator' } },
      parameters: { unix_socket_directories: directory },
      remove_data_directory_on_rewind_failure: true,
    },
  });

const haproxyConfig = (port: number, members: Member[]): string =>
  [
    'defaults',
    '  mode tcp',
    '  timeout connect 2s',
    '  timeout client 1h',
    '  timeout server 1h',
    '  timeout check 2s',
    'listen primary',
    `  bind 127.0.0.1:${port}`,
    '  option httpchk OPTIONS /primary',
    '  http-check expect status 200',
    '  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions',
    ...members.map(
      ({ name, port: memberPort, apiPort }) => `  server ${name} 127.0.0.1:${memberPort} check port ${apiPort}`,
    ),
    '',
  ].join('\n');

const urlOf = ({ port }: Member) => `postgres://${superuser}@127.0.0.1:${port}/postgres`;

const hasRow = (member: Member, text: string): Promise<boolean> =>
  withClient(urlOf(member), async (client) => (await client.query(text)).rows.length > 0).catch(() => false);

export async function patroniCluster(
  { place, python }: Outsider,
  { programs, version }: { programs: string; version: string },
): Promise<FailoverCluster> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-patroni-'));
  const account = runsAsRoot() ? ensureUnprivilegedAccount() : undefined;
  if (account) await chown(directory, account.uid, account.gid);
  await chmod(directory, 0o755);
  const children: ChildProcess[] = [];
  const start = (program: string, args: string[], env: Record<string, string> = {}): ChildProcess => {
    const child = spawn(program, args, {
      cwd: directory,
      env: { ...process.env, ...env },
      stdio: 'ignore',
      ...(account && { uid: account.uid, gid: account.gid }),
    });
    children.push(child);
    return child;
  };
  const end = async (child: ChildProcess | undefined) => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };

  const etcdPort = await freePort();
  const peerUrl = `http://127.0.0.1:${await freePort()}`;
  const clientUrl = `http://127.0.0.1:${etcdPort}`;
  const etcdData = join(directory, 'etcd');
  await mkdir(etcdData, { mode: 0o700 });
  if (account) await chown(etcdData, account.uid, account.gid);
  start(join(place, 'usr/bin/etcd'), [
    ...['--data-dir', etcdData, '--name', 'etcd', '--log-level', 'error'],
    ...['--listen-client-urls', clientUrl, '--advertise-client-urls', clientUrl],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `etcd=${peerUrl}`],
  ]);
  await until(
    'etcd',
    () =>
      fetch(`${clientUrl}/health`).then(
        ({ ok }) => ok,
        () => false,
      ),
    patience,
  );

  const createMember = async (name: string): Promise<Member> => {
    const [port, apiPort] = [await freePort(), await freePort()];
    const member = { name, port, apiPort, data: join(directory, name), config: join(directory, `${name}.yml`) };
    await writeFile(member.config, patroniConfig({ member, etcdPort, programs, directory }));
    return member;
  };
  const members = [await createMember('first'), await createMember('second')] as const;
  const startPatroni = (member: Member) => {
    const env = { PYTHONPATH: join(place, 'usr/lib/python3/dist-packages') };
    member.patroni = start(python, ['-m', 'patroni', member.config], env);
  };
  const killPostgres = async (member: Member) => {
    const file = await readFile(join(member.data, 'postmaster.pid'), 'utf8').catch(() => '');
    const pid = Number.parseInt(file, 10);
    // A killed server leaves its file behind, and another process may have its id by now.
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (command.includes(member.data)) await signalPostgres(pid, 'SIGKILL');
  };
  const waitForPrimary = (member: Member) =>
    until(`${member.name} to be the primary`, () => hasRow(member, 'select 1 where not pg_is_in_recovery()'), {
      ...patience,
      every_ms: 50,
    });

  let [primary, standby]: [Member, Member] = [...members];
  startPatroni(primary);
  await waitForPrimary(primary);

  const haproxyPort = await freePort();
  const haproxyFile = join(directory, 'haproxy.cfg');
  await writeFile(haproxyFile, haproxyConfig(haproxyPort, [...members]));
  const libraries = { LD_LIBRARY_PATH: join(place, 'usr/lib/x86_64-linux-gnu') };
  start(join(place, 'usr/sbin/haproxy'), ['-db', '-f', haproxyFile], libraries);
  const url = `postgres://${superuser}@127.0.0.1:${haproxyPort}/postgres`;
  await until(
    'HAProxy to reach the primary',
    () => withClient(url, () => Promise.resolve(true)).catch(() => false),
    patience,
  );

  return {
    name: `Debian's PostgreSQL ${version} under Patroni with etcd, behind HAProxy`,
    url,
    primaryUrl: () => urlOf(primary),
    async addStandby() {
      // Without its files, Patroni copies the new primary instead of recovering the killed one.
      await rm(standby.data, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
      startPatroni(standby);
      await until(
        'Patroni to have a synchronous standby',
        () => hasRow(primary, `select 1 from pg_stat_replication where sync_state = 'sync'`),
        patience,
      );
    },
    async killPrimary() {
      // Patroni first, or it would start the server again.
      await end(primary.patroni);
      await killPostgres(primary);
    },
    async promote() {
      await waitForPrimary(standby);
      [primary, standby] = [standby, primary];
    },
    async stop() {
      for (const child of children.reverse()) await end(child);
      for (const member of members) await killPostgres(member);
      await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}
