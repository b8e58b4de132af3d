/**
 * Runs the real command in the process of the test, or in a child process. A child is slower, but
 * can be interrupted.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { loadCommands } from '../catalogue.ts';
import { plain } from '../render/text/palette.ts';
import { runCommandLine } from '../run.ts';
import type { TerminalOutput } from '../terminal/terminal.ts';
import { testToken } from './scripted-server.ts';

const main = join(import.meta.dirname, '../main.ts');

export interface CliResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunningCli {
  /** Resolves when stdout contains the text; rejects if the command ends without printing it. */
  waitForText(text: string): Promise<void>;
  interrupt(): void;
  finished: Promise<CliResult>;
}

export interface CliOptions {
  server?: string;
  env?: Record<string, string>;
  input?: string;
  cwd?: string;
}

/** Keeps the developer's own settings out of the test. */
const environmentFor = ({ server, env }: CliOptions) => ({
  PATH: process.env.PATH,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
  SLIPWAY_TOKEN: testToken,
  ...(server && { SLIPWAY_SERVER: server }),
  ...env,
});

export function startCli(args: string[], options: CliOptions = {}): RunningCli {
  const child = spawn(process.execPath, [main, ...args], {
    env: environmentFor(options),
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
  const finished = once(child, 'close').then(([code]): CliResult => ({ code, stdout, stderr }));
  return {
    finished,
    interrupt: () => void child.kill('SIGINT'),
    waitForText: (text) =>
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

/** Makes an output that behaves like a pipe into another program. */
function pipeOutput(): { output: TerminalOutput; text(): string } {
  let text = '';
  const output: TerminalOutput = {
    write: (more) => {
      text += more;
    },
    columns: () => Number.POSITIVE_INFINITY,
    rows: () => Number.POSITIVE_INFINITY,
    interactive: false,
    paint: plain,
    onResize: () => () => {},
  };
  return { output, text: () => text };
}

async function runInProcess(words: string[], options: CliOptions): Promise<CliResult> {
  const [out, err] = [pipeOutput(), pipeOutput()];
  const environment = environmentFor(options);
  const commands = await loadCommands(words);
  const testEnvironment = process.env;
  // Commander reads process.env before the first await, so it can be restored right after the call.
  process.env = environment;
  const exitCode = runCommandLine({
    words,
    commands,
    environment,
    working_directory: process.cwd(),
    terminal: { out: out.output, err: err.output },
    // Trusted authorities apply to the whole process, so a test of --ca must use startCli.
    trust: () => {},
    signal: new AbortController().signal,
  });
  process.env = testEnvironment;
  return { code: await exitCode, stdout: out.text(), stderr: err.text() };
}

/** Starts a process only for standard input or another working directory. */
export const runCli = (args: string[], options: CliOptions = {}): Promise<CliResult> =>
  options.input === undefined && options.cwd === undefined
    ? runInProcess(args, options)
    : startCli(args, options).finished;
