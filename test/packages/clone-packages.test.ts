/**
 * The packages of a clone: `npm start` installs few and small ones, the tests add those for
 * development, in either order.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { unreadIn } from '../../scripts/setup/trim.mjs';
import { newFolder, removeFolder, root } from './support/artefacts.ts';
import { type SmallRegistry, startSmallRegistry } from './support/small-registry.ts';

const run = promisify(execFile);

/** As docs/how-to/install.md states. */
const maxMegabytes = 350;
const block = 4096;

/** Adds up what `du` would, without nested packages, which the lock file lists separately. */
function sizeOf(directory: string, unread: ReadonlySet<string>): number {
  return readdirSync(directory, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(directory, entry.name);
    if (unread.has(path) || entry.name === 'node_modules') return sum;
    if (entry.isDirectory()) return sum + sizeOf(path, unread);
    return entry.isFile() ? sum + Math.ceil(statSync(path).size / block) * block : sum;
  }, block);
}

test(`without development packages, a clone installs less than ${maxMegabytes} MB`, async () => {
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; link?: boolean }>;
  };
  const paths = Object.entries(packages)
    .filter(([path, { dev, link }]) => path.includes('node_modules/') && !dev && !link)
    .map(([path]) => join(root, path))
    .filter((path) => existsSync(path));
  const unread = new Set(unreadIn(join(root, 'node_modules')));
  const megabytes = paths.reduce((sum, path) => sum + sizeOf(path, unread), 0) / 2 ** 20;
  console.log(`a clone without development packages: ${paths.length} packages, ${megabytes.toFixed(0)} MB`);
  expect(paths.length).toBeGreaterThan(100);
  expect(megabytes).toBeLessThan(maxMegabytes);
});

const files = { 'index.js': '', 'index.d.ts': '', 'index.js.map': '' };

let clone: string;
let registry: SmallRegistry;
let env: NodeJS.ProcessEnv;
/** For each download of npm, whether the installed packages were usable meanwhile. */
let wasInstalled: boolean[];

const inClone = (...path: string[]) => join(clone, ...path);
const has = (path: string) => existsSync(inClone('node_modules', path));
const isUsable = () => has('server/index.js');

async function setUp(...options: string[]): Promise<'installed' | 'unchanged'> {
  const args = ['scripts/setup.mjs', '--packages-only', ...options];
  const { stderr } = await run(process.execPath, args, { cwd: clone, env });
  return stderr.includes('packages installed') ? 'installed' : 'unchanged';
}

const npm = (directory: string, args: string[], cache = env.npm_config_cache) =>
  run('npm', [...args, '--ignore-scripts'], { cwd: directory, env: { ...env, npm_config_cache: cache } });

/**
 * Publishes this version and locks it, in another directory and with another cache. In the clone,
 * npm would add the version to the cache and update its record of the installed packages.
 */
async function requireServer(version: string): Promise<void> {
  await registry.publish(version);
  const author = join(clone, '../author');
  const manifest = {
    ...{ name: 'clone', version: '1.0.0', private: true, workspaces: ['page'] },
    dependencies: { server: version },
    devDependencies: { checker: '1.0.0' },
  };
  await cp(inClone('page'), join(author, 'page'), { recursive: true });
  await cp(inClone('.npmrc'), join(author, '.npmrc'));
  await writeFile(join(author, 'package.json'), JSON.stringify(manifest));
  await npm(author, ['install', '--package-lock-only'], join(clone, '../cache-of-author'));
  for (const name of ['package.json', 'package-lock.json']) await cp(join(author, name), inClone(name));
}

beforeEach(async () => {
  const folder = await newFolder();
  clone = join(folder, 'clone');
  wasInstalled = [];
  registry = await startSmallRegistry(folder, { server: files, checker: files }, () => {
    wasInstalled.push(isUsable());
  });
  onTestFinished(async () => {
    registry.close();
    await removeFolder(folder);
  });
  env = { PATH: process.env.PATH, HOME: folder, npm_config_cache: join(folder, 'cache') };
  await mkdir(inClone('page'), { recursive: true });
  await cp(join(root, 'scripts/setup.mjs'), inClone('scripts/setup.mjs'));
  await cp(join(root, 'scripts/setup'), inClone('scripts/setup'), { recursive: true });
  await writeFile(inClone('page/package.json'), JSON.stringify({ name: 'page', version: '1.0.0' }));
  await writeFile(inClone('page/page.ts'), '');
  await writeFile(inClone('.npmrc'), `omit-lockfile-registry-resolved=true\nregistry=${registry.url}\n`);
  await requireServer('1.0.0');
});

test('start, then tests: the second set-up adds development packages and declarations', async () => {
  expect(await setUp()).toBe('installed');
  expect([has('server/index.js'), has('server/index.d.ts'), has('server/index.js.map'), has('checker')]).toEqual([
    ...[true, false, false, false],
  ]);
  expect(await setUp()).toBe('unchanged');

  await mkdir(inClone('node_modules/.cache'));
  wasInstalled = [];
  expect(await setUp('--with-development')).toBe('installed');
  expect([has('server/index.d.ts'), has('server/index.js.map'), has('checker'), has('.cache')]).toEqual([
    ...[true, true, true, true],
  ]);
  expect(wasInstalled).toContain(true);
  expect(wasInstalled).not.toContain(false);
  expect(await setUp('--with-development')).toBe('unchanged');
  expect(existsSync(inClone('page/page.ts'))).toBe(true);
  expect(readdirSync(inClone('dist'))).toEqual([]);
});

test('tests, then start: development packages stay, also when another version is locked', async () => {
  expect(await setUp('--with-development')).toBe('installed');
  expect(await setUp()).toBe('unchanged');
  expect([has('checker'), has('server/index.d.ts')]).toEqual([true, true]);

  await requireServer('2.0.0');
  expect(await setUp()).toBe('installed');
  expect([has('checker'), has('server/index.d.ts')]).toEqual([true, true]);
  expect(await readFile(inClone('node_modules/server/package.json'), 'utf8')).toContain('2.0.0');
});

test('declarations are restored if npm itself added the development packages', async () => {
  await setUp();
  await npm(clone, ['install']);
  expect([has('checker'), has('server/index.d.ts')]).toEqual([true, false]);
  expect(await setUp('--with-development')).toBe('installed');
  expect(has('server/index.d.ts')).toBe(true);
});

test('a failed installation keeps the packages that were installed before', async () => {
  await setUp();
  await requireServer('2.0.0');
  await writeFile(inClone('.npmrc'), 'registry=http://127.0.0.1:9/\nfetch-retries=0\n');
  await rm(env.npm_config_cache ?? '', { recursive: true });
  await expect(setUp()).rejects.toMatchObject({ code: 1 });
  expect(isUsable()).toBe(true);
  expect(await readFile(inClone('node_modules/server/package.json'), 'utf8')).toContain('1.0.0');
});
