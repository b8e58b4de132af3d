/**
 * Downloads the Debian packages of the image. Each is pinned by its hash, so the mirror needs no
 * trust, and an image of an old commit can be built again.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inPackaging, readJson, root } from './paths.ts';

interface PackageFile {
  path: string;
  sha256: string;
}

export interface DebianPackage {
  name: string;
  version: string;
  /** An SPDX id or expression. */
  license: string;
  amd64: PackageFile;
  arm64: PackageFile;
}

/** The second mirror keeps what the first deletes. */
export const { mirrors, packages } = readJson<{ mirrors: string[]; packages: DebianPackage[] }>(
  inPackaging('image/debian-packages.json'),
);

const debianArchitecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
const cache = join(root, 'node_modules/.cache/debian');

/** Downloads a file from the first mirror that has it, or takes it from the cache. */
export async function fetchPinned({ path, sha256 }: PackageFile, from = mirrors, into = cache): Promise<string> {
  const file = join(into, `${sha256}.deb`);
  if (existsSync(file)) return file;
  const failures: string[] = [];
  for (const mirror of from) {
    const url = `${mirror}/${path}`;
    const response = await fetch(url).catch((error: Error) => error);
    if (response instanceof Error || !response.ok) {
      failures.push(`${url}: ${response instanceof Error ? (response.cause ?? response) : response.status}`);
      continue;
    }
    const content = Buffer.from(await response.arrayBuffer());
    const found = createHash('sha256').update(content).digest('hex');
    if (found !== sha256) throw new Error(`${url} has the hash ${found}, and not ${sha256}`);
    mkdirSync(into, { recursive: true });
    writeFileSync(`${file}.${process.pid}`, content);
    renameSync(`${file}.${process.pid}`, file);
    return file;
  }
  throw new Error(`no mirror has ${path}:\n${failures.join('\n')}`);
}

/** Documentation and test files. The licence texts stay. */
const unneeded = ['usr/share/lintian', 'usr/share/gcc', 'usr/share/gdb', 'usr/share/man', 'usr/share/doc-base'];

/** Unpacks all packages below `tree`, with the entries that vulnerability scanners read. */
export async function addDebianPackages(tree: string): Promise<void> {
  mkdirSync(join(tree, 'var/lib/dpkg/status.d'), { recursive: true });
  for (const each of packages) {
    const file = await fetchPinned(each[debianArchitecture]);
    execFileSync('dpkg-deb', ['--extract', file, tree]);
    writeFileSync(join(tree, 'var/lib/dpkg/status.d', each.name), execFileSync('dpkg-deb', ['--field', file]));
  }
  for (const path of unneeded) rmSync(join(tree, path), { recursive: true, force: true });
  for (const name of readdirSync(join(tree, 'usr/share/doc')))
    for (const entry of readdirSync(join(tree, 'usr/share/doc', name)))
      if (entry !== 'copyright') rmSync(join(tree, 'usr/share/doc', name, entry), { recursive: true });
}
