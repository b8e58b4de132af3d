/**
 * Notices a second server on a copy of a data directory. Both copies have the same installation, so
 * each would treat the machines of the other as its own. Holds a socket in Linux's abstract
 * namespace, named after the installation: it has no file that could be copied, and it ends with
 * the process.
 */
import { once } from 'node:events';
import { createConnection, createServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { type Clock, pause } from '../../../base/clock.ts';
import { EmbeddedPostgresError, hasErrorCode } from './embedded-error.ts';

/** How long the process of a killed server may take to end. */
const graceMs = 5_000;
const pollMs = 50;
const answerMs = 2_000;

interface SoleServerOptions {
  installation_id: string;
  dataDir: string;
  clock: Clock;
}

/** Returns a function that closes the socket. Checks nothing except on Linux. */
export async function ensureSoleServer({ installation_id, dataDir, clock }: SoleServerOptions): Promise<() => void> {
  if (process.platform !== 'linux') return () => {};
  const path = `\0slipway/${installation_id}`;
  const giveUpMs = clock.monotonicMs() + graceMs;
  for (;;) {
    const server = await listen(path, `process ${process.pid} on ${dataDir}`);
    if (server) return () => void server.close();
    if (clock.monotonicMs() >= giveUpMs) throw copyError(dataDir, await readHolder(path));
    await pause(clock, pollMs);
  }
}

/** Returns undefined if another process listens there. */
async function listen(path: string, identity: string): Promise<Server | undefined> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(identity);
  });
  // The socket alone does not keep the process running.
  server.unref();
  server.listen({ path });
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (hasErrorCode(error, 'EADDRINUSE')) return undefined;
    throw error;
  }
}

async function readHolder(path: string): Promise<string> {
  const socket = createConnection({ path });
  socket.setTimeout(answerMs, () => socket.destroy(new Error('no answer')));
  return (await text(socket).catch(() => '')).slice(0, 1000) || 'another process';
}

const copyError = (dataDir: string, holder: string) =>
  new EmbeddedPostgresError(
    'data_directory_copied',
    `${dataDir} is a copy of a data directory whose server runs: ${holder}. Both would change the same machines.`,
    'Stop that server if this one replaces it. For a second installation, start with an empty --data-dir.',
  );
