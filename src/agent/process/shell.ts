/** Runs one shell script to its end: `setup`, `clean`, prerequisite checks. */
import { spawn } from 'node:child_process';
import type { Clock } from '../../base/clock.ts';
import type { LogStream } from '../spool/spool.ts';
import { logOutput, type OutputParts } from './child-output.ts';
import { redactKnown } from './known-secrets.ts';
import { endGroup } from './process-group.ts';

export interface ShellEnd {
  ok: boolean;
  /** `exited with code 3`, `was ended by SIGKILL`, `was ended after 60 s`. */
  how: string;
  last_lines: string[];
}

export interface ShellParts extends OutputParts {
  clock: Clock;
  cwd: string;
  /** Called at each run. */
  env(): NodeJS.ProcessEnv;
  /** Variables that are secret whatever their names. */
  secret_env?: readonly string[];
}

export interface ShellRun {
  script: string;
  stream: LogStream;
  /** Ends the shell and everything it started. */
  signal: AbortSignal;
  timeout_ms?: number;
}

const kept_lines = 20;
const grace_ms = 2_000;
/** How long to wait for output that a background process holds open. */
const output_ends_within_ms = 200;

export function runShell(parts: ShellParts, { script, stream, signal, timeout_ms }: ShellRun): Promise<ShellEnd> {
  const last_lines: string[] = [];
  const onLine = (line: string) => {
    last_lines.push(line);
    if (last_lines.length > kept_lines) last_lines.shift();
  };
  return new Promise((resolve) => {
    const { cwd, clock } = parts;
    const env = parts.env();
    const child = spawn('/bin/sh', ['-c', script], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let ended_because: string | null = null;
    const end = (because: string) => {
      ended_because ??= because;
      if (child.pid) endGroup(child.pid, grace_ms, clock);
    };
    const abort = () => end('was ended with the agent');
    signal.addEventListener('abort', abort, { once: true });
    const cancel = timeout_ms ? clock.after(timeout_ms, () => end(`was ended after ${timeout_ms / 1000} s`)) : null;
    const finish = (ok: boolean, how: string) => {
      signal.removeEventListener('abort', abort);
      cancel?.();
      // These lines do not pass through the log, so redact them here.
      resolve({ ok, how: ended_because ?? how, last_lines: last_lines.map(redactKnown(env, parts.secret_env)) });
    };
    for (const output of [child.stdout, child.stderr]) logOutput(output, stream, { ...parts, onLine });
    child.on('error', (error) => finish(false, `could not be started: ${error.message}`));
    child.on('exit', (code, killedBy) => {
      const how = code === null ? `was ended by ${killedBy}` : `exited with code ${code}`;
      const done = () => finish(code === 0 && ended_because === null, how);
      const late = clock.after(output_ends_within_ms, done);
      child.once('close', () => {
        late();
        done();
      });
    });
    if (signal.aborted) abort();
  });
}
