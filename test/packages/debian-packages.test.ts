/** The pinned packages of the image come from any mirror, and only with the right content. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fetchPinned, packages } from '../../packaging/build/debian-packages.ts';
import { newFolder, removeFolder } from './support/artefacts.ts';

const content = 'a package';
const pinnedPackage = { path: 'pool/a.deb', sha256: createHash('sha256').update(content).digest('hex') };

let mirror: Server;
let address: string;
let cache: string;
let requests: string[] = [];
beforeAll(async () => {
  cache = await newFolder();
  mirror = createServer(({ url = '' }, response) => {
    requests.push(url);
    if (url.startsWith('/empty/')) response.writeHead(404);
    response.end(content);
  });
  await new Promise<void>((resolve) => mirror.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(mirror.address() as AddressInfo).port}`;
});
afterAll(async () => {
  mirror.close();
  await removeFolder(cache);
});

test('a package that one mirror no longer has comes from the next, and then from the cache', async () => {
  const mirrors = ['http://127.0.0.1:1', `${address}/empty`, `${address}/full`];
  const file = await fetchPinned(pinnedPackage, mirrors, cache);
  expect(await readFile(file, 'utf8')).toBe(content);
  expect(requests).toEqual(['/empty/pool/a.deb', '/full/pool/a.deb']);
  requests = [];
  expect(await fetchPinned(pinnedPackage, mirrors, cache)).toBe(file);
  expect(requests).toEqual([]);
});

test('a package with another hash is refused and not kept', async () => {
  const otherPackage = { ...pinnedPackage, sha256: '0'.repeat(64) };
  await expect(fetchPinned(otherPackage, [address], cache)).rejects.toThrow(
    `has the hash ${pinnedPackage.sha256}, and not 000`,
  );
  await expect(readFile(join(cache, `${otherPackage.sha256}.deb`))).rejects.toThrow('ENOENT');
  await expect(fetchPinned(otherPackage, [`${address}/empty`], cache)).rejects.toThrow(
    /no mirror has pool\/a\.deb:[\s\S]* 404/,
  );
});

test.each(packages)('$name has one version for both architectures', ({ name, version, amd64, arm64 }) => {
  const withoutEpoch = version.replace(/^\d+:/, '');
  for (const [architecture, { path }] of Object.entries({ amd64, arm64 }))
    expect(path.endsWith(`/${name}_${withoutEpoch}_${architecture}.deb`)).toBe(true);
});
