/**
 * Installs the published AgentField SDK for Python, for the compatibility test: a version that
 * never reports ready, and a newer one. The SDK stays under node_modules, apart from the system's
 * Python.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inRoot, runQuietly, SetupError } from './say.mjs';

/** The last version that never reports ready by itself, and one that does. */
export const sdkVersions = { says_starting: '0.1.91', says_ready: '0.1.144' };

const folder = inRoot('node_modules', '.cache', 'agentfield-sdk');
const requirements = inRoot('scripts', 'setup', 'agentfield-sdk.txt');
const mark = join(folder, 'installed');
const expectedMark = () =>
  createHash('sha256').update(readFileSync(requirements)).update(JSON.stringify(sdkVersions)).digest('hex');

function isInstalled() {
  try {
    return readFileSync(mark, 'utf8') === expectedMark();
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return false;
  }
}

const python = process.env.PYTHON ?? 'python3';
const succeeds = (...args) => spawnSync(python, args, { stdio: 'ignore' }).status === 0;
const isPython = () => succeeds('-c', 'import sys; assert (3, 10) <= sys.version_info < (3, 14)');
const hasPip = () => succeeds('-m', 'pip', '--version');
const mayInstall = () => process.getuid?.() === 0 && spawnSync('apt-get', ['--version']).status === 0;

/** Describes what this machine lacks for the installation; undefined if nothing is missing. */
function missingPrerequisite() {
  const test = 'the test with the AgentField SDK will fail';
  if (!isPython())
    return `${test}: it needs Python 3.10 to 3.13 as python3 (Debian: apt-get install python3 python3-pip), or set PYTHON.`;
  if (!hasPip()) return `${test}: ${python} has no pip (Debian: apt-get install python3-pip).`;
  return undefined;
}

/**
 * Returns how to start a program with this version of the SDK. Throws instructions if the SDK is
 * not installed. The folder of the version takes precedence over the common packages.
 */
export function sdkPython(version) {
  if (!isInstalled())
    throw new SetupError(
      missingPrerequisite() ?? 'the AgentField SDK is not installed: run node scripts/setup.mjs --for-tests.',
    );
  return { program: python, env: { PYTHONPATH: [join(folder, version), join(folder, 'packages')].join(':') } };
}

export const agentfieldSdkStep = {
  doing: 'fetching the AgentField SDK for Python for its test',
  done: 'AgentField SDK fetched',
  needed() {
    if (isInstalled()) return false;
    return mayInstall() ? true : (missingPrerequisite() ?? true);
  },
  run() {
    if (missingPrerequisite()) {
      const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
      runQuietly('apt-get update', 'apt-get', ['update', '-q'], { env });
      runQuietly(
        'apt-get install',
        'apt-get',
        ['install', '-y', '-q', '--no-install-recommends', 'python3', 'python3-pip'],
        { env },
      );
    }
    const remaining = missingPrerequisite();
    if (remaining) throw new SetupError(remaining);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const install = (into, ...what) =>
      runQuietly('pip install', python, [
        ...[
          '-m',
          'pip',
          'install',
          '--quiet',
          '--disable-pip-version-check',
          '--no-deps',
          '--only-binary',
          ':all:',
          '--no-compile',
        ],
        ...['--target', join(folder, into), ...what],
      ]);
    install('packages', '-r', requirements, `agentfield==${sdkVersions.says_ready}`);
    install(sdkVersions.says_starting, `agentfield==${sdkVersions.says_starting}`);
    writeFileSync(mark, expectedMark());
  },
};
