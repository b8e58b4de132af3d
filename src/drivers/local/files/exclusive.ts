/**
 * Mutual exclusion between all processes on this host that might launch or destroy the same
 * instance. The lock is an abstract socket name, which the kernel frees when its holder dies; a
 * lock file would outlive a kill -9. Systems without abstract names (macOS) only exclude within one
 * process.
 */
import { createServer } from 'node:net';
import { platform } from 'node:process';
import { errorCode } from '../host-failure.ts';

const heldHere = new Set<string>();

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

/** Runs `work` if `name` is free; returns null at once if it is held. */
export async function exclusively<T>(name: string, work: () => Promise<T>): Promise<T | null> {
  if (heldHere.has(name)) return null;
  heldHere.add(name);
  try {
    const free = platform === 'linux' ? await listenOn(name) : async () => {};
    if (!free) return null;
    try {
      return await work();
    } finally {
      await free();
    }
  } finally {
    heldHere.delete(name);
  }
}
