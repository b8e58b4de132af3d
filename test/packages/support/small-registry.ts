/** A registry of npm with packages made for a test. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface SmallRegistry {
  url: string;
  /** Adds a version of each package. */
  publish(version: string): Promise<void>;
  close(): void;
}

async function pack(folder: string, name: string, version: string, files: Record<string, string>): Promise<Buffer> {
  const directory = join(folder, `${name}-${version}`);
  await mkdir(join(directory, 'package'), { recursive: true });
  const manifest = JSON.stringify({ name, version });
  for (const [path, text] of Object.entries({ 'package.json': manifest, ...files }))
    await writeFile(join(directory, 'package', path), text);
  await run('tar', ['-czf', 'package.tgz', 'package'], { cwd: directory });
  return readFile(join(directory, 'package.tgz'));
}

/** Serves each package in its published versions. `onDownload` is called for each tarball. */
export async function startSmallRegistry(
  folder: string,
  packages: Record<string, Record<string, string>>,
  onDownload: (name: string) => void,
): Promise<SmallRegistry> {
  const versions: string[] = [];
  const tarballs = new Map<string, Buffer>();
  const publish = async (version: string) => {
    for (const [name, files] of Object.entries(packages))
      tarballs.set(`${name}/${version}`, await pack(folder, name, version, files));
    versions.push(version);
  };
  const server = createServer((request, response) => {
    const [, name = '', version] = (request.url ?? '').split('/');
    const tarball = tarballs.get(`${name}/${version}`);
    if (tarball) {
      onDownload(name);
      response.end(tarball);
      return;
    }
    if (!(name in packages)) {
      response.writeHead(404).end('{}');
      return;
    }
    const described = versions.map((each) => {
      const integrity = `sha512-${createHash('sha512')
        .update(tarballs.get(`${name}/${each}`) ?? '')
        .digest('base64')}`;
      return [each, { name, version: each, dist: { integrity, tarball: `${url}${name}/${each}` } }];
    });
    const document = { name, 'dist-tags': { latest: versions.at(-1) }, versions: Object.fromEntries(described) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return { url, publish, close: () => server.close() };
}
