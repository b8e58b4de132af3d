/**
 * Finds a free port, for a server that must be restarted at the same address or for an address that
 * must not answer. The kernel takes the ports of outgoing connections from the ephemeral range, and
 * could take the port of a server that restarts, so `freePort` searches below that range.
 */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const ephemeralRange = '/proc/sys/net/ipv4/ip_local_port_range';
const firstPort = 10_000;
const maxTries = 100;

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}

export async function freePort(): Promise<number> {
  const firstEphemeralPort = Number.parseInt(readFileSync(ephemeralRange, 'utf8'), 10);
  for (let tries = 0; tries < maxTries; tries++) {
    const port = randomInt(firstPort, Math.max(firstPort + 1_000, firstEphemeralPort));
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port from ${firstPort} to ${firstEphemeralPort}`);
}
