/** Runs the real command: as a child process that a test can watch and interrupt, or, many times cheaper, in the test's own process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { loadCommands } from '../catalogue.ts';
import { plain } from '../render/text/palette.ts';
import { runCommandLine } from '../run.ts';
import type { Surface } from '../terminal/terminal.ts';
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

/** Nothing of the developer's own settings may reach a test. */
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

/** A stream that is no terminal, as a program that reads it would give it. */
function pipe(): { surface: Surface; text(): string } {
  let text = '';
  const surface: Surface = {
    write: (more) => {
      text += more;
    },
    columns: () => Number.POSITIVE_INFINITY,
    rows: () => Number.POSITIVE_INFINITY,
    interactive: false,
    paint: plain,
    onResize: () => () => {},
  };
  return { surface, text: () => text };
}

async function runHere(words: string[], options: CliOptions): Promise<Finished> {
  const [out, err] = [pipe(), pipe()];
  const environment = environmentFor(options);
  const commands = await loadCommands(words);
  const own = process.env;
  // The variables of flags are read before anything is waited for, and always from here.
  process.env = environment;
  const ended = runCommandLine({
    words,
    commands,
    environment,
    working_directory: process.cwd(),
    terminal: { out: out.surface, err: err.surface },
    // Trust is a process's; a command that has to have it changed needs one of its own.
    trust: () => {},
    signal: new AbortController().signal,
  });
  process.env = own;
  return { code: await ended, stdout: out.text(), stderr: err.text() };
}

/** A process of its own is needed only where something is read from it or it stands somewhere else. */
export const runCli = (args: string[], options: CliOptions = {}): Promise<Finished> =>
  options.input === undefined && options.cwd === undefined ? runHere(args, options) : startCli(args, options).finished;
