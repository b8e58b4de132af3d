import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AgentBundleFiles, keepBundle, readBundle, sha256 } from './agent-bundle.ts';

let files: AgentBundleFiles;
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'slipway-bundle-'));
  files = { path: join(dir, 'agent.mjs'), kept_dir: join(dir, 'kept') };
});
afterEach(() => rm(dir, { recursive: true }));

it('reads the bundle of the requested digest, even after an upgrade', async () => {
  expect(await readBundle(files)).toBeUndefined();
  expect(await keepBundle(files)).toBeUndefined();
  await writeFile(files.path, 'old');
  const oldDigest = (await keepBundle(files)) ?? '';
  expect(oldDigest).toBe(sha256(Buffer.from('old')));
  await writeFile(files.path, 'new');
  expect(String(await readBundle(files))).toBe('new');
  expect(String(await readBundle(files, oldDigest))).toBe('old');
  expect(await readBundle(files, sha256(Buffer.from('neither')))).toBeUndefined();
});

it('does not return a modified copy', async () => {
  await writeFile(files.path, 'old');
  const oldDigest = (await keepBundle(files)) ?? '';
  await writeFile(files.path, 'new');
  await writeFile(join(files.kept_dir, `${oldDigest}.mjs`), 'tampered');
  expect(await readBundle(files, oldDigest)).toBeUndefined();
});

it('keeps a limited number of copies', async () => {
  for (let version = 0; version < 9; version++) {
    await writeFile(files.path, `version ${version}`);
    await keepBundle(files);
  }
  expect(await readdir(files.kept_dir)).toHaveLength(5);
});
