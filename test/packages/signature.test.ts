/** A signed release, checked with the commands of docs/how-to/verify-a-release.md. */
import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { signChecksums, signingKey } from '../../packaging/build/signature.ts';
import { newFolder, removeFolder, root } from './support/artefacts.ts';

const run = promisify(execFile);
const folders: string[] = [];
afterEach(() => Promise.all(folders.splice(0).map(removeFolder)));

async function writeKey(type: 'ed25519' | 'ed448'): Promise<{ folder: string; file: string }> {
  const folder = await newFolder();
  folders.push(folder);
  const { privateKey } = type === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ed448');
  const file = join(folder, 'private.pem');
  await writeFile(file, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  return { folder, file };
}

/** The first block of commands on the page. */
async function readDocumentedCommands(): Promise<string> {
  const page = await readFile(join(root, 'docs/how-to/verify-a-release.md'), 'utf8');
  return /```sh\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
}

async function createSignedRelease(): Promise<string> {
  const { folder, file } = await writeKey('ed25519');
  const release = join(folder, 'release');
  await mkdir(release);
  await writeFile(join(release, 'slipway-0.1.0.tgz'), 'content');
  const { stdout } = await run('sha256sum', ['slipway-0.1.0.tgz'], { cwd: release });
  await writeFile(join(release, 'SHA256SUMS'), stdout);
  const key = signingKey({ SLIPWAY_RELEASE_KEY: file });
  if (!key) throw new Error('the key was not read');
  signChecksums(release, key);
  return release;
}

const verify = async (release: string) => run('sh', ['-euc', await readDocumentedCommands()], { cwd: release });

test('the documented commands accept a release as it was signed', async () => {
  const { stdout, stderr } = await verify(await createSignedRelease());
  expect(stdout + stderr).toContain('Signature Verified Successfully');
  expect(stdout).toContain('slipway-0.1.0.tgz: OK');
});

test.each(['slipway-0.1.0.tgz', 'SHA256SUMS', 'SHA256SUMS.sig'])(
  'the documented commands reject a changed %s',
  async (name) => {
    const release = await createSignedRelease();
    await appendFile(join(release, name), 'x');
    await expect(verify(release)).rejects.toMatchObject({ code: 1 });
  },
);

test('the documented commands reject the signature of another key', async () => {
  const release = await createSignedRelease();
  const otherRelease = await createSignedRelease();
  await writeFile(
    join(release, 'slipway-release.pub.pem'),
    await readFile(join(otherRelease, 'slipway-release.pub.pem')),
  );
  await expect(verify(release)).rejects.toMatchObject({ code: 1 });
});

test('a release without a key is not signed, and a key of another type is refused', async () => {
  expect(signingKey({})).toBeNull();
  const { file } = await writeKey('ed448');
  expect(() => signingKey({ SLIPWAY_RELEASE_KEY: file })).toThrow(/ed448, and must be of type ed25519/);
});
