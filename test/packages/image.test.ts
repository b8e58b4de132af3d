/**
 * The image of a release, built, loaded into another store, and run as an operator would: without
 * root, on a read-only root filesystem, with either database. The next version replaces it, and is
 * rolled back.
 */
import { existsSync } from 'node:fs';
import { chown, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { imageObstacle } from '../../packaging/build/image.ts';
import { systemClock } from '../../src/base/clock.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { selfSigned } from '../../src/probe/testing/self-signed.ts';
import { declarePool } from '../support/allocations.ts';
import { testDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import { buildRelease, files, imageName, newFolder, next, removeFolder, version } from './support/artefacts.ts';
import { expectedPages, readPages } from './support/installed-server.ts';
import { keepAllocation, rollbackReport, upgradeReport } from './support/kept-allocation.ts';
import { buildNextRelease } from './support/next-release.ts';
import { testsUnless } from './support/obstacles.ts';
import { openPodmanStore, type PodmanStore } from './support/podman-store.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 600_000 });

const account = 10001;
const maxMegabytes = 95;
const data = '/var/lib/slipway';

let releaseFolder: string;
let folder: string;
let store: PodmanStore;

/** The arguments of `podman run` that every container of this file needs. */
const common = ['--network', 'host', '--read-only', '--cap-drop', 'all'];

interface Running {
  name: string;
  exec(...command: string[]): Promise<string>;
  logs(): Promise<string>;
  /** Sends SIGTERM and resolves to the exit code. */
  stop(): Promise<number>;
}

const readExitCode = async (name: string): Promise<number> =>
  Number(await store.podman('inspect', '--format', '{{.State.ExitCode}}', name));

/** Starts a container and resolves when the server in it has printed its address. */
async function start(options: string[], image = imageName): Promise<Running> {
  const name = (await store.podman('create', ...common, ...options, image, 'serve')).trim();
  return begin(name.split('\n').at(0) ?? '');
}

async function begin(name: string): Promise<Running> {
  onTestFinished(() => void store.podman('rm', '--force', '--time', '0', name).catch(() => undefined));
  const logs = () => store.podman('logs', name);
  // The next start of a container appends to its log.
  const earlierLength = (await logs()).length;
  await store.podman('start', name);
  await until('the server in the container to print its address', async () => {
    const text = (await logs()).slice(earlierLength);
    const runningState = (await store.podman('inspect', '--format', '{{.State.Running}}', name)).trim();
    if (runningState !== 'true') throw new Error(`the container ended with ${await readExitCode(name)}:\n${text}`);
    return /Console\s+(http\S+)/.exec(text)?.[1];
  });
  return {
    name,
    exec: (...command) => store.podman('exec', name, ...command),
    logs,
    async stop() {
      await store.podman('stop', '--time', '60', name);
      return readExitCode(name);
    },
  };
}

const createClientFor = async ({ exec }: Running, url: string): Promise<Client> =>
  createClient({ base_url: url, token: (await exec('cat', `${data}/admin.token`)).trim(), addresses: routes });

/** Allocates and releases a machine with the command line in the image. */
async function allocateAndRelease(server: Running, url: string): Promise<string> {
  const { exec } = server;
  await exec('slipway', 'allocate', '--pool', 'local', '--name', 'first', '--wait', '--server', url);
  const [allocation] = (await (await createClientFor(server, url)).call('allocation-list', {})).items;
  const id = allocation?.allocation_id ?? '';
  await exec('slipway', 'release', id, '--wait', '--server', url);
  return JSON.parse(await exec('slipway', 'certificate', id, '--output', '-', '--server', url)).release;
}

/** Builds in a store of its own, so that the tests have only what they load. */
async function inBuilder(build: (env: Record<string, string>) => Promise<string>): Promise<string> {
  const builder = openPodmanStore();
  try {
    return await build(builder.env);
  } finally {
    builder.close();
  }
}

const tests = () => {
  beforeAll(async () => {
    folder = await newFolder();
    releaseFolder = await inBuilder((env) => buildRelease(['image'], { env }));
    store = openPodmanStore();
    await store.load(join(releaseFolder, files.image));
  });
  afterAll(async () => {
    store?.close();
    for (const each of [releaseFolder && dirname(releaseFolder), folder]) if (each) await removeFolder(each);
  });

  test('is small, has the hash of its file in SHA256SUMS, and states how it runs', async () => {
    const megabytes = (await stat(join(releaseFolder, files.image))).size / 1e6;
    console.log(`image: ${megabytes.toFixed(1)} MB compressed`);
    expect(megabytes).toBeLessThan(maxMegabytes);
    const [image] = JSON.parse(await store.podman('image', 'inspect', imageName));
    expect(image.Config).toMatchObject({
      User: `${account}:${account}`,
      Entrypoint: ['/usr/bin/tini-static', '--', '/usr/bin/slipway'],
      Cmd: ['serve'],
      ExposedPorts: { '7070/tcp': {} },
      Volumes: { [data]: {} },
      StopSignal: 'SIGTERM',
    });
    expect(image.Labels['org.opencontainers.image.version']).toBe(imageName.split(':').at(-1));
  });

  test('serves, allocates, releases and stops with its own database, and keeps it on the volume', async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const startedMs = systemClock.monotonicMs();
    const options = ['--volume', 'embedded:/var/lib/slipway', '--env', 'SLIPWAY_HOST=127.0.0.1'];
    const server = await start([...options, '--env', `SLIPWAY_PORT=${port}`]);
    console.log(`image: ready after ${Math.round(systemClock.monotonicMs() - startedMs)} ms, with a new database`);
    expect(await readPages(url)).toEqual(expectedPages);
    expect(await server.exec('id', '-u')).toBe(`${account}\n`);
    await expect(server.exec('sh', '-c', 'echo > /usr/written')).rejects.toThrow(/Read-only file system/);
    expect(await server.exec('cat', '/proc/1/comm')).toBe('tini-static\n');
    await server.exec('slipway-health.mjs');
    expect(await allocateAndRelease(server, url)).toBe('proven');
    const stoppedMs = systemClock.monotonicMs();
    expect(await server.stop()).toBe(0);
    console.log(`image: stopped after ${Math.round(systemClock.monotonicMs() - stoppedMs)} ms`);
    expect(await server.logs()).toContain('Stopped.');

    const volume = (await store.podman('volume', 'inspect', '--format', '{{.Mountpoint}}', 'embedded')).trim();
    expect(existsSync(join(volume, 'postgres/PG_VERSION'))).toBe(true);
    // PostgreSQL deletes this file when it has stopped in order.
    expect(existsSync(join(volume, 'postgres/postmaster.pid'))).toBe(false);

    const restartedServer = await begin(server.name);
    const { items } = await (await createClientFor(restartedServer, url)).call('allocation-list', {});
    expect(items.map(({ status }) => status)).toEqual(['released']);
    expect(await restartedServer.stop()).toBe(0);
  });

  test('serves with TLS on an external database, and creates no database of its own', async () => {
    const database = await testDatabase();
    onTestFinished(() => database.drop());
    const { cert, key } = selfSigned('localhost');
    for (const [name, text] of Object.entries({ cert, key })) {
      await writeFile(join(folder, name), text, { mode: 0o400 });
      await chown(join(folder, name), account, account);
    }
    const port = await freePort();
    const withoutSocket = new URL(database.url);
    withoutSocket.searchParams.delete('host');
    const settings = [
      `SLIPWAY_DATABASE_URL=${withoutSocket}`,
      ...['SLIPWAY_TLS_CERT=/run/tls/cert', 'SLIPWAY_TLS_KEY=/run/tls/key', `SLIPWAY_PORT=${port}`],
    ].flatMap((setting) => ['--env', setting]);
    const server = await start(['--volume', `${folder}:/run/tls:ro`, ...settings]);
    expect(await server.logs()).toMatch(new RegExp(`Console\\s+https://\\S+:${port}`));
    await server.exec('slipway-health.mjs');
    await expect(server.exec('ls', `${data}/postgres`)).rejects.toThrow(/No such file/);
    expect(await server.stop()).toBe(0);
  });

  test('is replaced by the next version and back, and a machine elsewhere stays allocated', async () => {
    const nextFolder = await inBuilder((env) => buildNextRelease(['image'], env));
    onTestFinished(() => removeFolder(dirname(nextFolder)));
    await store.load(join(nextFolder, next.files.image));
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const volume = ['--volume', `replaced:${data}`];
    const settings = [...volume, '--env', 'SLIPWAY_HOST=127.0.0.1', '--env', `SLIPWAY_PORT=${port}`];
    const oneOff = ['run', '--rm', '--no-healthcheck'];
    const check = async (image: string) =>
      JSON.parse(await store.podman(...oneOff, ...common, ...volume, image, 'upgrade', '--check', '--json'));

    const server = await start(settings);
    const client = await createClientFor(server, url);
    await declarePool(client, 'own', { driver: 'external' });
    const { token } = await client.call('join-token-create', { params: { pool: 'own' } });
    const agentSettings = [`SLIPWAY_AGENT_SERVER=${url}`, `SLIPWAY_JOIN_TOKEN=${token}`].flatMap((each) => [
      '--env',
      each,
    ]);
    const agentOptions = ['--detach', '--no-healthcheck', '--name', 'agent', '--volume', `agent:${data}`];
    onTestFinished(() => void store.podman('rm', '--force', '--time', '0', 'agent').catch(() => undefined));
    await store.podman('run', ...agentOptions, ...common, ...agentSettings, imageName, 'agent', '--dir', data);
    const kept = await keepAllocation(client, 'own');

    async function replace(old: Running, image: string): Promise<Running> {
      expect(await old.stop()).toBe(0);
      await store.podman('rm', old.name);
      expect(await check(image)).toMatchObject(image === imageName ? rollbackReport : upgradeReport);
      const startedMs = systemClock.monotonicMs();
      const replacement = await start(settings, image);
      const purpose = image === imageName ? 'a rollback' : 'an upgrade';
      console.log(`image: ready after ${Math.round(systemClock.monotonicMs() - startedMs)} ms, with ${purpose}`);
      return replacement;
    }
    const upgraded = await replace(server, next.imageName);
    await kept.expectKept(client, next.version);
    const rolledBack = await replace(upgraded, imageName);
    await kept.expectKept(client, version);
    expect(await kept.release(client)).toBe('proven');
    expect(await rolledBack.stop()).toBe(0);
  }, 300_000);

  test('refuses to serve plain HTTP to a network', async () => {
    const run = store.podman('run', '--rm', ...common, imageName);
    await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(/not a loopback address/) });
  });

  test('reports a server that does not answer as unhealthy', async () => {
    const check = ['--entrypoint', '/usr/bin/slipway-health.mjs', '--env', `SLIPWAY_PORT=${await freePort()}`];
    await expect(store.podman('run', '--rm', ...common, ...check, imageName)).rejects.toMatchObject({
      code: 1,
    });
  });
};
testsUnless('the image', process.getuid?.() === 0 ? imageObstacle() : 'this test needs root', tests);
