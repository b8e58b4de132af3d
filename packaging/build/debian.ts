/**
 * Builds the Debian package from the self-contained tree: programs in /usr/lib, settings in /etc,
 * units for systemd. dpkg-deb reads SOURCE_DATE_EPOCH.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { normalise } from './archive.ts';
import { inPackaging, manifest } from './paths.ts';

const architectures: Record<string, string> = { x64: 'amd64', arm64: 'arm64' };

/** Says why this host cannot build the package, or null. dpkg-deb can write zstd since 1.21.18. */
export function dpkgObstacle(): string | null {
  const { status, stdout } = spawnSync('dpkg-deb', ['--help'], { encoding: 'utf8' });
  if (status !== 0) return 'this host has no dpkg-deb';
  return stdout.includes('zstd') ? null : 'the dpkg-deb of this host is older than 1.21.18 and cannot write zstd';
}

export const debianFile = (): string =>
  `${manifest.name}_${manifest.version}_${architectures[process.arch] ?? process.arch}.deb`;

/** The parts of `packaging/` that are copied, with their places on the host. */
const files: Record<string, string> = {
  'systemd/slipway.service': 'usr/lib/systemd/system/slipway.service',
  'systemd/slipway-agent.service': 'usr/lib/systemd/system/slipway-agent.service',
  'systemd/slipway-relay.service': 'usr/lib/systemd/system/slipway-relay.service',
  'systemd/slipway.sysusers': 'usr/lib/sysusers.d/slipway.conf',
  'debian/copyright': 'usr/share/doc/slipway/copyright',
  'debian/conffiles': 'DEBIAN/conffiles',
  'debian/postinst': 'DEBIAN/postinst',
  'debian/prerm': 'DEBIAN/prerm',
  'debian/postrm': 'DEBIAN/postrm',
};

function kilobytesIn(path: string): number {
  const status = lstatSync(path);
  if (!status.isDirectory()) return Math.ceil(status.size / 1024);
  return readdirSync(path).reduce((total, name) => total + kilobytesIn(join(path, name)), 1);
}

const control = (installedKilobytes: number): string =>
  [
    `Package: ${manifest.name}`,
    `Version: ${manifest.version}`,
    `Architecture: ${architectures[process.arch]}`,
    'Maintainer: Slipway maintainers <maintainers@users.noreply.slipway.example>',
    `Installed-Size: ${installedKilobytes}`,
    'Depends: libc6 (>= 2.28), libstdc++6, systemd | passwd',
    'Section: admin',
    'Priority: optional',
    `Description: ${manifest.description.replace(/\.$/, '')}`,
    ' Server, agent, relay and command line of Slipway, with Node and PostgreSQL.',
    '',
  ].join('\n');

function place(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to, { recursive: true, verbatimSymlinks: true });
}

/** Copies `tree` to `staging` and writes the package to `folder`; `tree` stays as it is. */
export function writeDebianPackage(tree: string, staging: string, folder: string, date: Date): string {
  place(tree, join(staging, 'usr/lib/slipway'));
  place(join(tree, 'slipway.yaml'), join(staging, 'etc/slipway/slipway.yaml'));
  for (const [from, to] of Object.entries(files)) place(inPackaging(from), join(staging, to));
  mkdirSync(join(staging, 'usr/bin'), { recursive: true });
  symlinkSync('../lib/slipway/bin/slipway', join(staging, 'usr/bin/slipway'));
  writeFileSync(join(staging, 'DEBIAN/control'), control(kilobytesIn(staging)));
  for (const script of ['postinst', 'prerm', 'postrm']) chmodSync(join(staging, 'DEBIAN', script), 0o755);
  normalise(staging, date);
  const file = join(folder, debianFile());
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zzstd', '-z3', '--build', staging, file], {
    // The number of threads changes where a compressed block ends.
    env: { ...process.env, SOURCE_DATE_EPOCH: String(date.getTime() / 1000), DPKG_DEB_THREADS_MAX: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return file;
}
