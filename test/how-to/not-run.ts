/**
 * The documented commands that test/how-to-commands.test.ts does not run. A command is found by a
 * part of its text.
 */
import { spawnSync } from 'node:child_process';

export interface NotRun {
  part: string;
  reason: string;
}

export const notRun: NotRun[] = [
  { part: 'podman ', reason: 'needs the image of a release; test/packages/image.test.ts runs it' },
  {
    part: 'npm install --global',
    reason: 'needs the package of a release; test/packages/npm-package.test.ts installs it',
  },
  {
    part: 'slipway-0.1.0-linux-x64',
    reason: 'needs the archive of a release; test/packages/archives.test.ts starts it',
  },
  { part: 'apt install', reason: 'needs root and Debian; test/packages/debian-host.test.ts installs the package' },
  { part: 'dpkg-deb', reason: 'needs the package of a release; test/packages/debian-host.test.ts unpacks it' },
  { part: '/tmp/slipway-new', reason: 'needs the unpacked package; the check itself runs from the block before' },
  { part: 'systemctl', reason: 'needs systemd, which must not change on the host of a test' },
  { part: '-o slipway', reason: 'needs the account that the Debian package creates' },
  {
    part: '-u slipway',
    reason: 'needs the account that the Debian package creates; other blocks run the same command',
  },
  { part: '-o 10001', reason: 'needs root, to give files to the account of the image' },
  {
    part: '/var/lib/slipway-old',
    reason: 'moves the data directory of a stopped service, and the test has no service',
  },
  { part: 'AWS_REGION', reason: 'needs the credentials of a bucket' },
  { part: 's3://', reason: 'needs a bucket; test/outsiders/s3.test.ts runs it against a stand-in for S3' },
  { part: 'my_agent.py', reason: 'a placeholder for a program of the reader; test/outsiders runs such agents' },
  { part: 'promtool', reason: 'not every machine has Prometheus; test/outsiders runs promtool on these rules' },
  {
    part: 'npm start',
    reason: 'installs packages; test/packages/clone-packages.test.ts runs it in a clone of its own',
  },
  { part: 'npm run release', reason: 'builds for minutes; test/packages runs it' },
];

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

export const reasonNotToRun = (command: string): string | undefined =>
  command.startsWith('openssl ') && !hasOpenssl
    ? 'this machine has no openssl'
    : notRun.find(({ part }) => command.includes(part))?.reason;
