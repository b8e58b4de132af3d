/** Runs a shell script to its end: `setup`, `clean` or a prerequisite check. */
import { spawn } from 'node:child_process';
import type { Clock } from '../../base/clock.ts';
import type { LogStream } from '../spool/spool.ts';
import { logOutput, type OutputParts } from './child-output.ts';
import { createSecretRedactor } from './known-secrets.ts';
import { endGroup } from './process-group.ts';

export interface ShellEnd {
  ok: boolean;
  /** For example `exited with code 3`, `was ended by SIGKILL` or `was ended after 60 s`. */
  ending: string;
  last_lines: string[];
}

export interface ShellParts extends OutputParts {
  clock: Clock;
  cwd: string;
  /** Called at each run. */
  env(): NodeJS.ProcessEnv;
  /** Variables that are secret although their names do not show it. */
  secret_env?: readonly string[];
}

export interface ShellRun {
  script: string;
  stream: LogStream;
  /** An abort of this signal ends the shell and its process group. */
  signal: AbortSignal;
  timeout_ms?: number;
}

const max_last_lines = 20;
const grace_ms = 2_000;
/** How long to wait for output after the shell exited, if a background process holds it open. */
const max_output_wait_ms = 200;

export function runShell(parts: ShellParts, { script, stream, signal, timeout_ms }: ShellRun): Promise<ShellEnd> {
  const last_lines: string[] = [];
  const onLine = (line: string) => {
    last_lines.push(line);
    if (last_lines.length > max_last_lines) last_lines.shift();
  };
  return new Promise((resolve) => {
    const { cwd, clock } = parts;
    const env = parts.env();
    const child = spawn('/bin/sh', ['-c', script], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let endReason: string | null = null;
    const end = (reason: string) => {
      endReason ??= reason;
      if (child.pid) endGroup(child.pid, grace_ms, clock);
    };
    const abort = () => end('was ended because its task or the agent stopped');
    signal.addEventListener('abort', abort, { once: true });
    const cancelTimeout = timeout_ms
      ? clock.after(timeout_ms, () => end(`was ended after ${timeout_ms / 1000} s`))
      : null;
    const finish = (ok: boolean, ending: string) => {
      signal.removeEventListener('abort', abort);
      cancelTimeout?.();
      // The log redacts what it stores, but `onLine` gets the raw lines, so redact this copy too.
      resolve({
        ok,
        ending: endReason ?? ending,
        last_lines: last_lines.map(createSecretRedactor(env, parts.secret_env)),
      });
    };
    for (const output of [child.stdout, child.stderr]) logOutput(output, stream, { ...parts, onLine });
    child.on('error', (error) => finish(false, `could not be started: ${error.message}`));
    child.on('exit', (code, killedBy) => {
      const ending = code === null ? `was ended by ${killedBy}` : `exited with code ${code}`;
      // May run twice, after the wait and at `close`; the second call changes nothing.
      const finishAfterExit = () => finish(code === 0 && endReason === null, ending);
      const cancelWait = clock.after(max_output_wait_ms, finishAfterExit);
      child.once('close', () => {
        cancelWait();
        finishAfterExit();
      });
    });
    if (signal.aborted) abort();
  });
}
