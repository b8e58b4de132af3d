/** Real agents on machines that others bring: the bundle that ships, each as a process in a directory of its own. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { World } from './scenario.ts';

const bundle = fileURLToPath(new URL('../../../dist/agent.mjs', import.meta.url));

export interface RealAgent {
  /** Where it keeps everything. */
  dir: string;
  /** Tells it to stop; it says goodbye. */
  stop(): Promise<unknown>;
  /** Everything it logged so far. */
  output(): string;
  /** Its exit code, once it has ended by itself or was told to. */
  ended: Promise<number | null>;
  hasEnded(): boolean;
  /** Why it ended by itself. */
  lastWord(): Promise<{ code: string; reason: string; at: string } | null>;
}

/** Told what a driver would tell it, besides where the server is. Ends, with all it kept, when the test is over. */
export async function startAgent(world: World, told: object): Promise<RealAgent> {
  const dir = await mkdtemp(join(tmpdir(), 'slipway-test-agent-'));
  const config = join(dir, 'agent.json');
  await writeFile(config, JSON.stringify({ server_url: world.server.url, dir, ...told }));
  const agent = spawn(process.execPath, [bundle, '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [agent.stdout, agent.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  let over = false;
  const ended = new Promise<number | null>((resolve) => {
    agent.once('exit', (code) => {
      over = true;
      resolve(code);
    });
  });
  onTestFinished(async () => {
    agent.kill('SIGKILL');
    await ended;
    await rm(dir, { recursive: true, force: true });
  });
  const exitFile = join(dir, 'agent.exit.json');
  return {
    dir,
    stop() {
      agent.kill('SIGTERM');
      return ended;
    },
    output: () => text,
    ended,
    hasEnded: () => over,
    lastWord: async () => (existsSync(exitFile) ? JSON.parse(await readFile(exitFile, 'utf8')) : null),
  };
}
