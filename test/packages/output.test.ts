/**
 * A release deletes only the files of an earlier release from its folder, and fails if an artefact
 * that it must build is impossible.
 */
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { emptyOutput, stagingName } from '../../packaging/build/output.ts';
import { files, newFolder, removeFolder, root } from './support/artefacts.ts';

const folders: string[] = [];
afterEach(() => Promise.all(folders.splice(0).map(removeFolder)));

async function folderWith(names: string[]): Promise<string> {
  const folder = await newFolder();
  folders.push(folder);
  for (const name of names) await writeFile(join(folder, name), '');
  return folder;
}

test('refuses a folder with other files, and deletes nothing there', async () => {
  const names = ['.profile', 'SHA256SUMS', files.npm];
  const folder = await folderWith(names);
  expect(() => emptyOutput(folder)).toThrow('like .profile');
  expect((await readdir(folder)).sort()).toEqual(names.toSorted());
  const clones = await folderWith([]);
  await mkdir(join(clones, 'slipway-1'));
  expect(() => emptyOutput(clones)).toThrow('like slipway-1');
});

test('deletes an earlier release, even one that was interrupted, and creates a missing folder', async () => {
  const folder = await folderWith([
    ...['SHA256SUMS', 'SHA256SUMS.sig', 'slipway-release.pub.pem', 'slipway-0.0.9.tgz'],
    ...Object.values(files),
  ]);
  await mkdir(join(folder, stagingName, 'package'), { recursive: true });
  emptyOutput(folder);
  expect(await readdir(folder)).toEqual([]);
  emptyOutput(join(folder, 'made/deep'));
  expect(await readdir(join(folder, 'made/deep'))).toEqual([]);
});

test.each([
  ['--only image', ['--only', 'image'], {}, 'cannot build the artefact image: this host has no podman'],
  ['CI', [], { CI: 'true' }, 'cannot build the artefact debian: this host has no dpkg-deb'],
])('fails with %s where a program is missing', async (_, only, env, message) => {
  const folder = await folderWith([]);
  const command = [join(root, 'scripts/release.ts'), '--into', join(folder, 'out'), ...only];
  // No program is in this folder.
  const empty = { PATH: folder, SOURCE_DATE_EPOCH: '1', ...env };
  const { status, stderr } = spawnSync(process.execPath, command, { env: empty, encoding: 'utf8' });
  expect(stderr).toContain(message);
  expect(status).not.toBe(0);
  expect(await readdir(folder)).toEqual([]);
});
