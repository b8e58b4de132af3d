/** Tests the agent bundle: one file that imports only Node modules and runs on older Node too. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentBench, until } from './testing/agent-process.ts';
import { protocolServer } from './testing/protocol-server.ts';

let dir: string;
let file: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'slipway-bundle-'));
  file = join(dir, 'agent.mjs');
  const input = fileURLToPath(new URL('./main.ts', import.meta.url));
  const bundle = await rolldown({ input, platform: 'node', transform: { target: 'node20' } });
  await bundle.write({ file, format: 'esm', codeSplitting: false });
  await bundle.close();
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test('the bundle is one file without runtime dependencies', () => {
  expect(readdirSync(dir)).toEqual(['agent.mjs']);
  const text = readFileSync(file, 'utf8');
  const imported = [...text.matchAll(/(?:\bfrom|\bimport|\brequire\()\s*["']([^"']+)["']/g)].map(
    ([, target]) => target,
  );
  expect(imported.length).toBeGreaterThan(0);
  expect(imported.filter((target) => !target?.startsWith('node:'))).toEqual([]);
});

/** The Node that runs this test, and those installed on the machine. */
const nodes = [process.execPath, '/usr/bin/node', '/usr/local/bin/node'].filter((path) => existsSync(path));
const versions = nodes.map((path) => ({
  path,
  version: execFileSync(path, ['--version'], { encoding: 'utf8' }).trim(),
}));

test.for(versions)('the bundle runs on Node $version', async ({ path }) => {
  const server = await protocolServer();
  const bench = agentBench();
  try {
    const config = { server_url: server.url, command: ['/bin/sh', '-c', 'echo hello; sleep 60'], clean: 'true' };
    const agent = bench.start(bench.dir(), config, [path, file]);
    await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready reported');
    const task_id = server.queue('release.clean', { nonce: 'n' });
    await until(() => server.results.get(task_id)?.status === 'succeeded', 'a result');
    await until(() => server.lines.some(({ line }) => line === 'hello'), 'the output of the command');
    agent.kill('SIGINT');
    expect((await agent.exit).code).toBe(0);
    expect(agent.output()).not.toContain('Warning');
  } finally {
    await bench.clear();
    await server.stop();
  }
});
