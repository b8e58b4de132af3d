/**
 * Mutual exclusion between everybody on this host who might launch or destroy the same instance: two servers, or a zombie
 * step beside its successor. The lock is an abstract socket name, because the kernel itself frees it when its holder dies;
 * a lock file would outlive a kill -9. Systems without abstract names (macOS) only exclude within one process.
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

/** Runs `work` if nobody else holds `name`; answers `null` at once if somebody does. */
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
