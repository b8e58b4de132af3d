/**
 * Builds the image of a release from the self-contained tree and a few packages of Debian, and
 * saves it as an archive that, unpacked by gunzip, `podman load` and `docker load` read.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, createWriteStream, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { normalise } from './archive.ts';
import { addDebianPackages } from './debian-packages.ts';
import { inPackaging, manifest } from './paths.ts';

export const imageName = `localhost/${manifest.name}:${manifest.version}`;
export const imageFile = (): string => `${manifest.name}-${manifest.version}-linux-${process.arch}.image.tar.gz`;

/** Says why this host cannot build the image, or null. */
export function imageObstacle(): string | null {
  if (spawnSync('podman', ['--version']).status !== 0) return 'this host has no podman';
  return spawnSync('dpkg-deb', ['--version']).status === 0 ? null : 'this host has no dpkg-deb';
}

/** The programs of the launcher, PostgreSQL's initdb, the chart, and a person in a shell. */
export const applets = ['sh', 'cat', 'cp', 'env', 'id', 'kill', 'ls', 'mkdir', 'ps', 'readlink', 'rm', 'sleep'];

const account = 10001;

const texts: Record<string, string> = {
  // PostgreSQL refuses an account without a name.
  'etc/passwd': `root:x:0:0:root:/:/bin/sh\nslipway:x:${account}:${account}:Slipway:/var/lib/slipway:/bin/sh\n`,
  'etc/group': `root:x:0:\nslipway:x:${account}:\n`,
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  'etc/os-release': 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian 12 (libraries only)"\n',
};

async function addBase(base: string): Promise<void> {
  await addDebianPackages(base);
  for (const applet of applets) symlinkSync('busybox', join(base, 'bin', applet));
  for (const [path, text] of Object.entries(texts)) writeFileSync(join(base, path), text);
  cpSync(inPackaging('image/slipway-health.mjs'), join(base, 'usr/bin/slipway-health.mjs'));
  symlinkSync('../lib/slipway/bin/slipway', join(base, 'usr/bin/slipway'));
  symlinkSync(`../lib/slipway/node_modules/node-linux-${process.arch}/bin/node`, join(base, 'usr/bin/node'));
  mkdirSync(join(base, 'tmp'));
}

function podman(args: string[]): void {
  const { status, stderr } = spawnSync('podman', args, { encoding: 'utf8', maxBuffer: 64 << 20 });
  if (status !== 0) throw new Error(`podman ${args[0]} ended with status ${status}:\n${stderr}`);
}

/** Moves `tree` into `staging` and writes the image to `folder`. */
export async function writeImage(tree: string, staging: string, folder: string, date: Date): Promise<void> {
  const base = join(staging, 'base');
  mkdirSync(base, { recursive: true });
  mkdirSync(join(staging, 'state/slipway'), { recursive: true });
  renameSync(tree, join(staging, 'slipway'));
  await addBase(base);
  normalise(staging, date);
  chmodSync(join(base, 'tmp'), 0o1777);
  chmodSync(join(staging, 'state/slipway'), 0o700);
  podman([
    ...['build', '--quiet', '--file', inPackaging('image/Containerfile'), '--tag', imageName],
    // The format of OCI has no health check.
    ...['--format', 'docker', '--network', 'none', '--no-cache'],
    ...['--timestamp', String(date.getTime() / 1000), '--build-arg', `VERSION=${manifest.version}`, staging],
  ]);
  const save = spawn('podman', ['save', '--quiet', '--format', 'docker-archive', imageName], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(save, 'close');
  await pipeline(save.stdout, createGzip({ level: 6 }), createWriteStream(join(folder, imageFile())));
  const [status] = await ended;
  if (status !== 0) throw new Error(`podman save ended with status ${status}`);
}
