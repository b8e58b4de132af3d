/**
 * The Debian package on a minimal Debian with systemd, as an operator uses it: installed, served,
 * upgraded to the next version, rolled back, removed and purged. Server, relay and agent are units.
 */
import { mkdir, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { dpkgObstacle } from '../../packaging/build/debian.ts';
import { systemClock } from '../../src/base/clock.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { declarePool } from '../support/allocations.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import { buildRelease, files, newFolder, next, removeFolder, version } from './support/artefacts.ts';
import { type DebianHost, debianHostObstacle, startDebianHost } from './support/debian-host.ts';
import { type KeptAllocation, keepAllocation, rollbackReport, upgradeReport } from './support/kept-allocation.ts';
import { buildNextRelease } from './support/next-release.ts';
import { testsUnless } from './support/obstacles.ts';
import { openPodmanStore, type PodmanStore } from './support/podman-store.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 600_000 });

const units = ['slipway', 'slipway-relay', 'slipway-agent'];
const data = '/var/lib/slipway';

let folder: string;
let store: PodmanStore;
let host: DebianHost;
let port: number;
let relayPort: number;
let client: Client;
let keptAllocations: KeptAllocation[];

const apt = (...args: string[]) => host.run('apt-get', '--quiet', '--yes', ...args);
const url = () => `http://127.0.0.1:${port}`;
const packageOf = (name: string) => `/releases/${name}`;

const untilReady = (expected: string) =>
  until(`a ready server of version ${expected}`, async () => {
    const answers = await Promise.all(
      ['/healthz', '/readyz'].map((path) => fetch(`${url()}${path}`).catch(() => undefined)),
    );
    const health = (await answers[0]?.json().catch(() => undefined)) as { version?: string } | undefined;
    return health?.version === expected && answers[1]?.status === 200;
  });

/** Runs the check of a package that is unpacked elsewhere, as docs/how-to/upgrade.md says. */
async function check(name: string): Promise<object> {
  await host.run('dpkg-deb', '--extract', packageOf(name), `/tmp/${name}`);
  const program = `/tmp/${name}/usr/lib/slipway/bin/slipway`;
  const asService = ['runuser', '-u', 'slipway', '--', program];
  return JSON.parse(await host.run(...asService, 'upgrade', '--check', '--json', '--data-dir', data));
}

/** Installs another version over the present one, and expects that everything goes on. */
async function replaceBy(name: string, expected: string, ...options: string[]): Promise<void> {
  const startedMs = systemClock.monotonicMs();
  await apt('install', ...options, packageOf(name));
  await untilReady(expected);
  console.log(`Debian package: ready after ${elapsed(startedMs)}, with apt-get install of ${expected}`);
  expect(await host.run('systemctl', 'is-active', ...units)).toBe('active\n'.repeat(units.length));
  await until(`a relay of version ${expected}`, async () => (await readRelayVersion()) === expected);
  for (const each of keptAllocations) await each.expectKept(client, expected);
  const { items: machines } = await client.call('node-list', { query: { pool: 'lab' } });
  expect(machines.map(({ agent_version }) => agent_version)).toEqual([`slipway-agent/${expected}`]);
  expect(await countCommandStarts()).toBe(1);
  expect(await host.run('tail', '--lines=1', '/etc/slipway/slipway.yaml')).toBe('# mine\n');
}

async function expectAccounts(): Promise<void> {
  for (const account of units) expect(await host.run('id', '--user', '--name', account)).toBe(`${account}\n`);
}

const elapsed = (startedMs: number) => `${Math.round(systemClock.monotonicMs() - startedMs)} ms`;

async function readRelayVersion(): Promise<string | undefined> {
  const answer = await fetch(`http://127.0.0.1:${relayPort}/metrics`).catch(() => undefined);
  return /slipway_relay_build_info\{version="([^"]+)"\}/.exec((await answer?.text()) ?? '')?.[1];
}

/** The agent's command adds a line to a file when it starts. */
const countCommandStarts = async () =>
  (await host.run('cat', '/var/lib/slipway-agent/starts')).trim().split('\n').length;

const agentCommand = "/bin/sh -c 'echo started >> /var/lib/slipway-agent/starts; exec sleep infinity'";

const tests = () => {
  beforeAll(async () => {
    folder = await newFolder();
    const releases = join(folder, 'releases');
    await mkdir(releases);
    for (const [built, name] of [
      [await buildRelease(['debian']), files.debian],
      [await buildNextRelease(['debian']), next.files.debian],
    ] as const) {
      await rename(join(built, name), join(releases, name));
      await removeFolder(dirname(built));
    }
    store = openPodmanStore();
    host = await startDebianHost(store, releases);
    port = await freePort();
    relayPort = await freePort();
  });
  afterAll(async () => {
    store?.close();
    if (folder) await removeFolder(folder);
  });

  test('installs accounts, folders and units, and starts nothing', async () => {
    await apt('install', packageOf(files.debian));
    const megabytes = (await stat(join(folder, 'releases', files.debian))).size / 1e6;
    const installed = await host.run('du', '--summarize', '--block-size=1MB', '/usr/lib/slipway');
    console.log(`Debian package: ${megabytes.toFixed(1)} MB, ${Number.parseInt(installed, 10)} MB installed`);
    await expectAccounts();
    const paths = units.map((unit) => `/usr/lib/systemd/system/${unit}.service`);
    expect(await host.run('systemd-analyze', 'verify', '--man=no', '--recursive-errors=no', ...paths)).toBe('');
    expect(await host.run('systemctl', 'show', '--property=ActiveState', '--value', ...units)).toBe(
      Array(units.length).fill('inactive\n').join('\n'),
    );
    expect(await host.run('slipway', '--version')).toBe(`${version}\n`);
  });

  test('serves as a unit with few rights, and allocates', async () => {
    await host.run('sh', '-c', 'echo "# mine" >> /etc/slipway/slipway.yaml');
    await host.writeSecret('/etc/slipway/server.env', `SLIPWAY_PORT=${port}`);
    const startedMs = systemClock.monotonicMs();
    await host.run('systemctl', 'enable', '--now', 'slipway');
    await untilReady(version);
    console.log(`Debian package: ready after ${elapsed(startedMs)}, with a new database`);
    const pid = (await host.run('systemctl', 'show', '--property=MainPID', '--value', 'slipway')).trim();
    const status = await host.run('cat', `/proc/${pid}/status`);
    expect(status).toMatch(/^CapEff:\t0{16}$/m);
    expect(status).toMatch(/^CapBnd:\t0{16}$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(await host.run('stat', '--format=%U:%G %a', data, `${data}/admin.token`)).toBe(
      'slipway:slipway 700\nslipway:slipway 600\n',
    );
    const token = (await host.run('cat', `${data}/admin.token`)).trim();
    client = createClient({ base_url: url(), token, addresses: routes });
    keptAllocations = [await keepAllocation(client, 'local')];
  });

  test('runs a relay and, behind it, an agent with a command, as units', async () => {
    await declarePool(client, 'lab', { driver: 'external' });
    await host.writeSecret('/etc/slipway/relay.env', `SLIPWAY_RELAY_SERVER=${url()}\nSLIPWAY_RELAY_PORT=${relayPort}`);
    const { token } = await client.call('join-token-create', { params: { pool: 'lab' } });
    const relay = `http://127.0.0.1:${relayPort}`;
    await host.writeSecret('/etc/slipway/agent.env', `SLIPWAY_AGENT_SERVER=${relay}\nSLIPWAY_JOIN_TOKEN=${token}`);
    const dropIn = '/etc/systemd/system/slipway-agent.service.d';
    await host.run('mkdir', dropIn);
    const start = `/usr/bin/slipway agent --dir /var/lib/slipway-agent -- ${agentCommand}`;
    await host.writeSecret(`${dropIn}/command.conf`, `[Service]\nExecStart=\nExecStart=${start}`);
    await host.run('systemctl', 'daemon-reload');
    await host.run('systemctl', 'enable', '--now', 'slipway-relay', 'slipway-agent');
    keptAllocations.push(await keepAllocation(client, 'lab'));
    for (const each of keptAllocations) await each.expectKept(client, version);
    expect(await countCommandStarts()).toBe(1);
  });

  test('is upgraded, and all allocations, settings and commands stay', async () => {
    expect(await check(next.files.debian)).toMatchObject(upgradeReport);
    await replaceBy(next.files.debian, next.version);
    keptAllocations.push(await keepAllocation(client, 'local'));
  });

  test('is rolled back, and releases with proof what it and the next version allocated', async () => {
    expect(await check(files.debian)).toMatchObject(rollbackReport);
    await replaceBy(files.debian, version, '--allow-downgrades');
    for (const each of keptAllocations) expect(await each.release(client)).toBe('proven');
    await (await keepAllocation(client, 'local')).release(client);
  });

  test('is removed with its services, and a purge keeps the state', async () => {
    await apt('remove', 'slipway');
    // A process that ends meanwhile makes find fail.
    const find = 'find /proc -maxdepth 1 "(" -user slipway -o -user slipway-agent -o -user slipway-relay ")" || true';
    await until('the end of all processes', async () => (await host.run('sh', '-c', find)) === '');
    expect(await host.run('sh', '-c', 'ls /usr/bin/slipway /usr/lib/slipway 2>/dev/null || true')).toBe('');
    expect(await apt('purge', 'slipway')).toMatch(
      /kept \/var\/lib\/slipway with[\s\S]*kept \/var\/lib\/slipway-agent with/,
    );
    expect(await host.run('sh', '-c', `ls /etc/slipway 2>/dev/null; ls ${data}`)).toMatch(/^admin.token$/m);
  });

  test('creates its accounts also without systemd-sysusers', async () => {
    await host.run('mv', '/usr/bin/systemd-sysusers', '/opt/');
    for (const account of units) await host.run('userdel', account);
    await apt('install', packageOf(files.debian));
    await expectAccounts();
  });
};

testsUnless('the Debian package on Debian', dpkgObstacle() ?? debianHostObstacle(), () => {
  describe('the Debian package on Debian', tests);
});
