/** The licences of the packages of the product are allowed, and `slipway status` counts them. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { refuseLicences } from '../packaging/build/allowed-licences.ts';
import { refuseNativeLicences } from '../packaging/build/sbom.ts';
import { installedLicences, lockedLicences, notStated, readLicences } from '../src/base/files/licences.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-licences-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const writeJson = async (path: string, value: unknown) => {
  await mkdir(join(directory, path, '..'), { recursive: true });
  await writeFile(join(directory, path), JSON.stringify(value));
};

test('every package of the product, and every native library, has an allowed licence', async () => {
  const packages = await lockedLicences(root);
  expect(packages.length).toBeGreaterThan(200);
  // An optional package that this machine does not install has no manifest to read.
  refuseLicences(
    'packages',
    packages.filter(({ name, licence }) => licence !== notStated || existsSync(join(root, 'node_modules', name))),
  );
  refuseNativeLicences();
});

test('refuses a licence that is not in the list, and names the package', () => {
  expect(() => refuseLicences('packages', [{ name: 'left', licence: 'GPL-3.0-only' }])).toThrow('left (GPL-3.0-only)');
  expect(() => refuseLicences('packages', [{ name: 'left', licence: notStated }])).toThrow('left (not stated)');
  expect(() => refuseLicences('packages', [{ name: 'both', licence: 'MIT AND GPL-3.0-only' }])).toThrow('both');
  refuseLicences('packages', [{ name: 'either', licence: '(GPL-3.0-only OR MIT)' }]);
});

test('counts the packages in the lock of a clone, without those for development', async () => {
  await writeJson('package-lock.json', {
    packages: {
      '': { license: 'Apache-2.0' },
      'console/node_modules/a': { license: 'MIT' },
      'node_modules/b': { license: 'ISC' },
      'node_modules/b/node_modules/c': { license: 'MIT' },
      'node_modules/console': { link: true },
      'node_modules/tool': { license: 'GPL-3.0-only', dev: true },
      'node_modules/old': {},
      'node_modules/gone': {},
    },
  });
  await writeJson('node_modules/old/package.json', { licenses: [{ type: 'MIT' }] });
  const list = join(directory, 'package-lock.json');
  expect(await readLicences(directory)).toEqual({ packages: 5, counts: { MIT: 3, ISC: 1, [notStated]: 1 }, list });
});

test('takes the counts of a release from its build', async () => {
  expect(await readLicences(directory)).toBeNull();
  await writeJson('package-lock.json', { packages: {} });
  await writeJson('licences.json', { packages: 1, counts: { MIT: 1 } });
  expect(await readLicences(directory)).toEqual({
    packages: 1,
    counts: { MIT: 1 },
    list: join(directory, 'THIRD-PARTY-NOTICES'),
  });
});

test('has no counts while the files cannot be read, and reads them at the next call', async () => {
  const licences = { packages: 1, counts: { MIT: 1 }, list: 'list' };
  expect(await installedLicences(() => Promise.reject(new Error('too many open files')))).toBeNull();
  expect(await installedLicences(async () => licences)).toEqual(licences);
  expect(await installedLicences(() => Promise.reject(new Error('too many open files')))).toEqual(licences);
});
