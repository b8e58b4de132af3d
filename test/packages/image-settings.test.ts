/** The health check of the image, and the settings that the image gives to an agent. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { inPackaging } from '../../packaging/build/paths.ts';
import { configFromCommandLine } from '../../src/agent/options.ts';
import { image } from '../outsiders/support/containerfile.ts';

async function startServerAt(host: string): Promise<number> {
  const server = createServer(({ url }, reply) => reply.writeHead(url === '/healthz' ? 200 : 404).end());
  onTestFinished(() => void server.close());
  await once(server.listen(0, host), 'listening');
  return (server.address() as AddressInfo).port;
}

async function check(env: Record<string, string>): Promise<number> {
  const program = spawn(process.execPath, [inPackaging('image/slipway-health.mjs')], { env });
  const [code] = await once(program, 'exit');
  return code;
}

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['127.0.0.2', '127.0.0.2'],
  ['0.0.0.0', '0.0.0.0'],
  ['127.0.0.1', ''],
])('the health check reaches a server at %s if SLIPWAY_HOST is "%s"', async (host, given) => {
  const port = String(await startServerAt(host));
  expect(await check({ SLIPWAY_HOST: given, SLIPWAY_PORT: port })).toBe(0);
});

test('the health check fails if nothing listens at SLIPWAY_HOST', async () => {
  const port = String(await startServerAt('127.0.0.1'));
  expect(await check({ SLIPWAY_HOST: '127.0.0.2', SLIPWAY_PORT: port })).toBe(1);
});

test('an agent in the image ends its command at SIGTERM', () => {
  const args = ['--server', 'https://slipway.example', '--enrollment-token', 'token', '--', 'true'];
  expect(configFromCommandLine(args, image.env)).toMatchObject({ stop_ends_command: true });
});
