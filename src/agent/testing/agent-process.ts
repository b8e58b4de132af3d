/** Starts real agent processes for tests, each in its own directory, and cleans up after them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pause, systemClock } from '../../base/clock.ts';
import { otlpHeadersVariable } from '../../base/settings/otlp-headers.ts';
import { commandRecords } from '../process/command-record.ts';
import { endGroup, endProcesses } from '../process/process-group.ts';
import { readProcess } from '../process/process-table.ts';
import { agentDirectory } from '../state/state-file.ts';
import { node } from './protocol-server.ts';

const entry = fileURLToPath(new URL('../main.ts', import.meta.url));
/** Runs the agent's file, also as a shim. */
export const agentProgram = [process.execPath, entry];
const timeout_ms = 60_000;

/** Polls a condition until it holds. The error after a timeout contains the description. */
export async function until(condition: () => boolean, description: string): Promise<void> {
  const deadline = systemClock.monotonicMs() + timeout_ms;
  while (!condition()) {
    if (systemClock.monotonicMs() > deadline) throw new Error(`timed out waiting for: ${description}`);
    await pause(systemClock, 10);
  }
}

export interface AgentProcess {
  pid: number;
  dir: string;
  exit: Promise<{ code: number | null; signal: string | null }>;
  kill(signal: NodeJS.Signals): void;
  output(): string;
  exitFile(): { code: string; reason: string; exit_status: number; last_output?: string[] } | null;
}

export interface AgentBench {
  /** Creates a directory for an agent. */
  dir(): string;
  start(dir: string, config: Record<string, unknown>, command?: readonly string[]): AgentProcess;
  /** Ends the agents that this bench started, and removes their directories. */
  clear(): Promise<void>;
}

/** Ends the command of an agent that left it running. */
export async function endLeftCommand(dir: string): Promise<void> {
  const record = commandRecords(agentDirectory(dir)).read();
  const shim = record && readProcess(record.shim.pid);
  if (!record || shim?.start !== record.shim.start) return;
  if (record.group !== null) await endGroup(record.group, 0, systemClock);
  await endProcesses([shim], 0, systemClock);
}

export function agentBench(): AgentBench {
  const dirs: string[] = [];
  const children: ChildProcess[] = [];
  return {
    dir() {
      const dir = mkdtempSync(join(tmpdir(), 'slipway-agent-'));
      dirs.push(dir);
      return dir;
    },
    start(dir, config, command = agentProgram) {
      const path = join(dir, 'agent.json');
      const defaults = {
        enrollment_token: 'enrol',
        ...node,
        name: 'n1',
        correlation_id: 'corr-1',
        workflow_id: 'op_9',
        dir,
      };
      writeFileSync(path, JSON.stringify({ ...defaults, ...config }));
      const [program = '', ...args] = command;
      const { PATH, NODE_COMPILE_CACHE } = process.env;
      const env = {
        PATH,
        NODE_COMPILE_CACHE,
        SLIPWAY_NODE_INSTANCE_ID: node.node_instance_id,
        // A secret of the agent, which no command may see.
        [otlpHeadersVariable]: 'x-key=of-the-agent',
      };
      const child = spawn(program, [...args, '--config', path], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      children.push(child);
      const chunks: Buffer[] = [];
      for (const output of [child.stdout, child.stderr]) output.on('data', (chunk) => chunks.push(chunk));
      const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
        child.on('exit', (code, signal) => resolve({ code, signal }));
      });
      const exitPath = join(dir, 'agent.exit.json');
      return {
        pid: child.pid ?? 0,
        dir,
        exit,
        kill: (signal) => child.kill(signal),
        output: () => Buffer.concat(chunks).toString('utf8'),
        exitFile: () => (existsSync(exitPath) ? JSON.parse(readFileSync(exitPath, 'utf8')) : null),
      };
    },
    async clear() {
      for (const child of children) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        const exited = new Promise((resolve) => child.once('exit', resolve));
        // SIGTERM would leave the command running.
        child.kill('SIGINT');
        await exited;
      }
      for (const dir of dirs) await endLeftCommand(dir);
      for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
    },
  };
}
