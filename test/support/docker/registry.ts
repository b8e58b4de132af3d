/**
 * An image registry for tests. It serves one image of one layer behind a password. It sends the
 * second half of the layer only after `release`, so that a test can observe an unfinished pull.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { createTar } from '../../../src/base/files/tar.ts';

export interface Registry {
  /** The host and port, which serve plain HTTP. */
  address: string;
  image: string;
  /** Sends the rest of the layer. */
  release(): void;
  close(): Promise<void>;
}

const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const manifestType = 'application/vnd.docker.distribution.manifest.v2+json';

function imageOf(file: Buffer) {
  const tar = createTar([{ name: 'filler', body: file }], new Date(0));
  const layer = gzipSync(tar, { level: 0 });
  const { arch } = process;
  const architecture = arch === 'x64' ? 'amd64' : arch;
  const rootfs = { type: 'layers', diff_ids: [digestOf(tar)] };
  const config = Buffer.from(JSON.stringify({ architecture, os: 'linux', config: { Cmd: ['/nothing'] }, rootfs }));
  const descriptor = (mediaType: string, bytes: Buffer) => ({ mediaType, size: bytes.length, digest: digestOf(bytes) });
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: descriptor('application/vnd.docker.container.image.v1+json', config),
      layers: [descriptor('application/vnd.docker.image.rootfs.diff.tar.gzip', layer)],
    }),
  );
  return { layer, config, manifest };
}

export async function startRegistry(login: { username: string; password: string }): Promise<Registry> {
  const { layer, config, manifest } = imageOf(Buffer.alloc(400_000, 'slipway'));
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const expectedAuthorization = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`;

  const answer = async ({ url = '', headers }: IncomingMessage, reply: ServerResponse) => {
    const send = (status: number, type: string, body: Buffer | string) =>
      reply.writeHead(status, { 'content-type': type, 'content-length': body.length }).end(body);
    if (headers.authorization !== expectedAuthorization) {
      reply.setHeader('www-authenticate', 'Basic realm="slipway"');
      return send(401, 'application/json', '{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}');
    }
    if (url === '/v2/') return send(200, 'application/json', '{}');
    if (url.startsWith('/v2/worker/manifests/')) return send(200, manifestType, manifest);
    if (url.endsWith(digestOf(config))) return send(200, 'application/octet-stream', config);
    if (!url.endsWith(digestOf(layer)))
      return send(404, 'application/json', '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}');
    reply.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': layer.length });
    reply.write(layer.subarray(0, layer.length / 2));
    await released;
    return reply.end(layer.subarray(layer.length / 2));
  };
  const server = createServer((request, reply) => void answer(request, reply));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    address,
    image: `${address}/worker:1`,
    release,
    async close() {
      release();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
