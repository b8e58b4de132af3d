/** Runs the real command as a child process and lets a test wait for what it prints. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { testToken } from './scripted-server.ts';

const main = join(import.meta.dirname, '../main.ts');

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunningCli {
  /** Resolves once stdout contains the text; rejects when the command ends without it. */
  printed(text: string): Promise<void>;
  interrupt(): void;
  finished: Promise<Finished>;
}

export interface CliOptions {
  server?: string;
  env?: Record<string, string>;
  input?: string;
  cwd?: string;
}

export function startCli(args: string[], options: CliOptions = {}): RunningCli {
  const child = spawn(process.execPath, [main, ...args], {
    // Nothing of the developer's own settings may reach a test.
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      SLIPWAY_TOKEN: testToken,
      ...(options.server && { SLIPWAY_SERVER: options.server }),
      ...options.env,
    },
    ...(options.cwd && { cwd: options.cwd }),
  });
  let stdout = '';
  let stderr = '';
  const listeners = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    for (const listen of listeners) listen();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.end(options.input ?? '');
  const finished = once(child, 'close').then(([code]): Finished => ({ code, stdout, stderr }));
  return {
    finished,
    interrupt: () => void child.kill('SIGINT'),
    printed: (text) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (!stdout.includes(text)) return;
          listeners.delete(check);
          resolve();
        };
        listeners.add(check);
        check();
        finished.then(() => reject(new Error(`ended without printing ${JSON.stringify(text)}:\n${stdout}\n${stderr}`)));
      }),
  };
}

export const runCli = (args: string[], options: CliOptions = {}): Promise<Finished> => startCli(args, options).finished;
