/** A release empties its folder without deleting anything that is not of a release. */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { emptyOutput, stagingName } from '../../packaging/build/output.ts';
import { files, newFolder, removeFolder } from './support/artefacts.ts';

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

test('deletes an earlier release, also one that was killed, and makes a new folder', async () => {
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
