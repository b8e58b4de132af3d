/**
 * Archives depend only on the date of the release and on the names, modes and content of their
 * files: not on the order or times of the files, the umask or the owner.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { sourceDate, writeTarball } from '../../packaging/build/archive.ts';
import { debianFile, dpkgObstacle, writeDebianPackage } from '../../packaging/build/debian.ts';
import { imageFile, imageObstacle, writeImage } from '../../packaging/build/image.ts';
import { listTarball, newFolder, removeFolder } from './support/artefacts.ts';
import { testsUnless } from './support/obstacles.ts';
import { openPodmanStore } from './support/podman-store.ts';

const date = new Date('2026-01-02T03:04:06Z');
const folders: string[] = [];
afterEach(() => Promise.all(folders.splice(0).map(removeFolder)));

const texts: [path: string, text: string, mode: number][] = [
  ['bin/program', '#!/bin/sh\n', 0o755],
  ['data/a', 'a', 0o644],
  ['data/b/c', 'c', 0o644],
  ['slipway.yaml', '', 0o644],
  // Enough names that a file system lists them in another order.
  ...Array.from({ length: 20 }, (_, i): [string, string, number] => [`data/many/${i + 10}`, '', 0o644]),
];

/** Writes the same tree in another order, and with the modes of another umask. */
async function writeTree({ reversed }: { reversed: boolean }): Promise<string> {
  const folder = await newFolder();
  folders.push(folder);
  const tree = join(folder, 'tree');
  for (const [path, text, mode] of reversed ? texts.toReversed() : texts) {
    await mkdir(dirname(join(tree, path)), { recursive: true, mode: reversed ? 0o700 : 0o755 });
    await writeFile(join(tree, path), text);
    await chmod(join(tree, path), reversed ? mode & 0o700 : mode);
  }
  await symlink('b/c', join(tree, 'data/link'));
  return tree;
}

const computeHash = async (path: string) =>
  createHash('sha256')
    .update(await readFile(path))
    .digest('hex');

test('a tarball of the same files is the same', async () => {
  const hashes = [];
  for (const reversed of [false, true]) {
    const tree = await writeTree({ reversed });
    const file = join(dirname(tree), 'tree.tar.gz');
    await writeTarball(tree, file, date);
    hashes.push(await computeHash(file));
    const manyPaths = (await listTarball(file)).filter((path) => path.includes('/many/'));
    expect(manyPaths).toEqual(manyPaths.toSorted());
  }
  expect(hashes[1]).toBe(hashes[0]);
});

test('a tarball of another content, mode, name or date differs', async () => {
  const tree = await writeTree({ reversed: false });
  const file = join(dirname(tree), 'tree.tar.gz');
  const hashes: string[] = [];
  const pack = async (when: Date) => {
    await writeTarball(tree, file, when);
    hashes.push(await computeHash(file));
  };
  await pack(date);
  await pack(new Date(date.getTime() + 1000));
  await writeFile(join(tree, 'data/a'), 'b');
  await pack(date);
  await chmod(join(tree, 'data/a'), 0o755);
  await pack(date);
  await rename(join(tree, 'data/a'), join(tree, 'data/z'));
  await pack(date);
  expect(new Set(hashes).size).toBe(hashes.length);
});

async function comparePackages() {
  const hashes = [];
  for (const reversed of [false, true]) {
    const tree = await writeTree({ reversed });
    const folder = dirname(tree);
    writeDebianPackage(tree, join(folder, 'staging'), folder, date);
    hashes.push(await computeHash(join(folder, debianFile())));
  }
  expect(hashes[1]).toBe(hashes[0]);
}
testsUnless('the Debian package', dpkgObstacle(), () => {
  test('a Debian package of the same files is the same', comparePackages);
});

async function compareImages() {
  const layers: string[][] = [];
  for (const reversed of [false, true]) {
    const store = openPodmanStore();
    for (const [name, value] of Object.entries(store.env)) vi.stubEnv(name, value);
    try {
      const tree = await writeTree({ reversed });
      const folder = dirname(tree);
      await writeImage(tree, join(folder, 'staging'), folder, date);
      const [image] = JSON.parse(
        execFileSync('tar', ['-xzOf', join(folder, imageFile()), 'manifest.json'], { encoding: 'utf8' }),
      );
      layers.push(image.Layers);
    } finally {
      vi.unstubAllEnvs();
      store.close();
    }
  }
  // The name of a layer is its hash. Podman adds a random container id to the settings of an image.
  expect(layers[0]).toHaveLength(3);
  expect(layers[1]).toEqual(layers[0]);
}
testsUnless('the image', process.getuid?.() === 0 ? imageObstacle() : 'this test needs root', () => {
  test('an image of the same files has the same layers', compareImages);
});

test('the date is SOURCE_DATE_EPOCH, or else that of the commit', async () => {
  expect(sourceDate({ SOURCE_DATE_EPOCH: '1767323046' })).toEqual(date);
  expect(() => sourceDate({ SOURCE_DATE_EPOCH: 'yesterday' })).toThrow(/not a number of seconds/);
  const clone = await newFolder();
  folders.push(clone);
  expect(() => sourceDate({}, clone)).toThrow(/set SOURCE_DATE_EPOCH/);
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', clone, '-c', 'user.name=Test', '-c', 'user.email=test@example', ...args], {
      env: { ...process.env, GIT_COMMITTER_DATE: date.toISOString() },
      stdio: 'pipe',
    });
  git('init', '--quiet');
  git('commit', '--quiet', '--allow-empty', '--message', 'first');
  expect(sourceDate({}, clone)).toEqual(date);
  // Makes Git treat the clone as one of another user. Git's own tests use this variable.
  vi.stubEnv('GIT_TEST_ASSUME_DIFFERENT_OWNER', '1');
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(() => git('log')).toThrow(/dubious ownership/);
  expect(sourceDate({}, clone)).toEqual(date);
});
