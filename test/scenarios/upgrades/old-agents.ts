/** Runs agents of an earlier release, from the file that this release gave its machines. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

export interface OldAgents {
  start(name: string): void;
  /** Names of agents whose process has ended. */
  ended(): string[];
  output(): string;
  stop(): Promise<void>;
}

const command = ['/bin/sh', '-c', 'trap "exit 0" TERM; while :; do sleep 0.2; done'];

export async function oldAgents(parts: {
  version: string;
  server_url: string;
  join_token: string;
}): Promise<OldAgents> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-old-agents-'));
  const bundle = join(directory, 'agent.mjs');
  const fixture = join(import.meta.dirname, 'fixtures', `agent-${parts.version}.mjs.gz`);
  await writeFile(bundle, gunzipSync(await readFile(fixture)));
  const agents = new Map<string, ChildProcess>();
  let output = '';
  const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;
  return {
    start(name) {
      const args = ['--server', parts.server_url, '--name', name, '--dir', join(directory, name), '--', ...command];
      const agent = spawn(process.execPath, [bundle, ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, SLIPWAY_JOIN_TOKEN: parts.join_token },
      });
      for (const stream of [agent.stdout, agent.stderr])
        stream.on('data', (chunk) => {
          output += chunk;
        });
      agents.set(name, agent);
    },
    ended: () => [...agents].flatMap(([name, agent]) => (hasEnded(agent) ? [name] : [])),
    output: () => output,
    async stop() {
      for (const agent of agents.values()) {
        if (hasEnded(agent)) continue;
        const end = once(agent, 'exit');
        // An agent before 0.2 ends its command too.
        agent.kill('SIGTERM');
        await end;
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}
