/** Starts a process that outlives the server: its own session, no pipe to us, its output in a file of the node. */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants, open } from 'node:fs/promises';

const append =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export interface DetachedCommand {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
  output: string;
}

/** Resolves once the program really runs; rejects with the host's error when it cannot. */
export async function spawnDetached({
  argv,
  cwd,
  env,
  output,
}: DetachedCommand): Promise<ChildProcess & { pid: number }> {
  const [program = '', ...args] = argv;
  const log = await open(output, append, 0o600);
  try {
    return await new Promise((resolve, reject) => {
      const child = spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', log.fd, log.fd] });
      child.once('error', reject);
      child.once('spawn', () => {
        child.unref();
        const { pid } = child;
        if (pid === undefined) reject(new Error('a spawned process has no pid'));
        else resolve(Object.assign(child, { pid }));
      });
    });
  } finally {
    await log.close();
  }
}
