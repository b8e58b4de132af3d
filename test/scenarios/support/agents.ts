/** Real agents on machines that others bring: the bundle that ships, each as a process in a directory of its own. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { World } from './scenario.ts';

const bundle = fileURLToPath(new URL('../../../dist/agent.mjs', import.meta.url));

export interface RealAgent {
  /** Everything it logged so far. */
  output(): string;
  /** Its exit code, once it has ended by itself or was told to. */
  ended: Promise<number | null>;
  hasEnded(): boolean;
  /** Why it ended by itself. */
  lastWord(): Promise<{ code: string; reason: string } | null>;
}

/** Ends, with all it kept, when the test is over. */
export async function startAgent(world: World, enrollment_token: string, command: string[] = []): Promise<RealAgent> {
  const dir = await mkdtemp(join(tmpdir(), 'slipway-test-agent-'));
  const args = [bundle, '--server', world.server.url, '--dir', dir, ...(command.length > 0 ? ['--', ...command] : [])];
  const agent = spawn(process.execPath, args, {
    cwd: dir,
    env: { ...process.env, SLIPWAY_ENROLLMENT_TOKEN: enrollment_token },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
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
    output: () => text,
    ended,
    hasEnded: () => over,
    lastWord: async () => (existsSync(exitFile) ? JSON.parse(await readFile(exitFile, 'utf8')) : null),
  };
}
