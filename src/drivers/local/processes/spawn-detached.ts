/**
 * Starts a process that outlives the server. It has its own session, no pipe to the server, and
 * writes its output to a file of the node.
 */
import { spawn } from 'node:child_process';
import { constants, open } from 'node:fs/promises';

const append =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export interface DetachedCommand {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
  output: string;
  /** Called when the process ends, if this server still runs. */
  onExit?(pid: number, code: number | null, signal: NodeJS.Signals | null): void;
}

/** Resolves with the pid once the program runs; rejects with the host's error if it cannot. */
export async function spawnDetached({ argv, cwd, env, output, onExit }: DetachedCommand): Promise<number> {
  const [program = '', ...args] = argv;
  const log = await open(output, append, 0o600);
  try {
    return await new Promise((resolve, reject) => {
      const child = spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', log.fd, log.fd] });
      const { pid } = child;
      child.once('error', reject);
      if (pid === undefined) return;
      // Listen from the start, because the process may end before the caller runs again.
      child.once('exit', (code, signal) => onExit?.(pid, code, signal));
      child.once('spawn', () => resolve(pid));
      child.unref();
    });
  } finally {
    await log.close();
  }
}
