/** Starts real agents from the built bundle, each as a process in its own directory. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { ScenarioContext } from './scenario.ts';

const bundle = fileURLToPath(new URL('../../../dist/agent.mjs', import.meta.url));

export interface RealAgent {
  /** The agent's data directory. */
  dir: string;
  /** Sends SIGTERM, on which the agent says goodbye. */
  stop(): Promise<unknown>;
  /** Everything the agent logged so far. */
  output(): string;
  /** Resolves to the exit code. */
  ended: Promise<number | null>;
  hasEnded(): boolean;
  /** The reason that the agent recorded when it gave up. */
  exitReport(): Promise<{ code: string; reason: string; at: string } | null>;
}

/**
 * Starts an agent with the configuration that a driver would give it. At the end of the test the
 * agent is killed, so it says no goodbye, and its directory is removed.
 */
export async function startAgent(context: ScenarioContext, config: object): Promise<RealAgent> {
  const dir = await mkdtemp(join(tmpdir(), 'slipway-test-agent-'));
  const configFile = join(dir, 'agent.json');
  await writeFile(configFile, JSON.stringify({ server_url: context.server.url, dir, ...config }));
  const agent = spawn(process.execPath, [bundle, '--config', configFile], { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [agent.stdout, agent.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  let isOver = false;
  const ended = new Promise<number | null>((resolve) => {
    agent.once('exit', (code) => {
      isOver = true;
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
    hasEnded: () => isOver,
    exitReport: async () => (existsSync(exitFile) ? JSON.parse(await readFile(exitFile, 'utf8')) : null),
  };
}
