/** Real servers on loopback, well-behaved or not. Each is closed at the end of its test. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface LoopbackServer {
  port: number;
  /** Every connection ever made, including closed ones. */
  connections: Socket[];
  open(): number;
}

interface Place {
  host?: string;
  port?: number;
}

async function listening(server: Server, { host = '127.0.0.1', port = 0 }: Place): Promise<LoopbackServer> {
  const connections: Socket[] = [];
  server.on('connection', (socket: Socket) => {
    connections.push(socket);
    // Probes hang up in the middle of many exchanges, on purpose.
    socket.on('error', () => {});
  });
  server.listen(port, host);
  await once(server, 'listening');
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of connections) socket.destroy();
    await closed;
  });
  const address = server.address();
  if (!address || typeof address === 'string') throw new Error('no port was given');
  return { port: address.port, connections, open: () => connections.filter((socket) => !socket.closed).length };
}

export const httpServer = (answer: RequestListener, place: Place = {}) => listening(createServer(answer), place);

export const tlsServer = (options: ServerOptions, answer: RequestListener, place: Place = {}) =>
  listening(createTlsServer(options, answer), place);

/** Calls `talk` when the first bytes of a request arrive. */
export const rawServer = (talk: (socket: Socket) => void, place: Place = {}) =>
  listening(
    createTcpServer((socket) => {
      socket.once('data', () => talk(socket));
    }),
    place,
  );

/** Writes `piece` as fast as the peer reads, until it hangs up. */
export function pour(socket: Socket, piece: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
    if (!socket.destroyed) socket.once('drain', more);
  };
  more();
}
