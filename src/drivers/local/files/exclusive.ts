/**
 * Mutual exclusion between all processes on this host that might launch, clean or destroy the same
 * instance. The lock is an abstract socket name, which the kernel frees when its holder dies; a
 * lock file would survive kill -9. macOS has no abstract names, so the lock works only within one
 * process there.
 */
import { createServer } from 'node:net';
import { platform } from 'node:process';
import { errorCode } from '../host-failure.ts';

const heldInProcess = new Set<string>();

function listenOn(name: string): Promise<(() => Promise<void>) | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error) => (errorCode(error) === 'EADDRINUSE' ? resolve(null) : reject(error)));
    server.listen({ path: `\0${name}`, exclusive: true }, () => {
      server.unref();
      resolve(() => new Promise<void>((closed) => server.close(() => closed())));
    });
  });
}

/** Runs `work` under the lock. Returns null at once if the lock is held. */
export async function withLock<T>(name: string, work: () => Promise<T>): Promise<T | null> {
  if (heldInProcess.has(name)) return null;
  heldInProcess.add(name);
  try {
    const release = platform === 'linux' ? await listenOn(name) : async () => {};
    if (!release) return null;
    try {
      return await work();
    } finally {
      await release();
    }
  } finally {
    heldInProcess.delete(name);
  }
}
