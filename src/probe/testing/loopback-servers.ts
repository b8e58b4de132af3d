/** Starts real servers on loopback for tests. Each server is closed at the end of its test. */
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

interface ListenOptions {
  host?: string;
  port?: number;
}

async function startServer(server: Server, { host = '127.0.0.1', port = 0 }: ListenOptions): Promise<LoopbackServer> {
  const connections: Socket[] = [];
  server.on('connection', (socket: Socket) => {
    connections.push(socket);
    // Many tests make the probe close its connection in the middle of a response.
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
  if (!address || typeof address === 'string') throw new Error('the server has no port');
  return { port: address.port, connections, open: () => connections.filter((socket) => !socket.closed).length };
}

export const httpServer = (answer: RequestListener, at: ListenOptions = {}) => startServer(createServer(answer), at);

export const tlsServer = (options: ServerOptions, answer: RequestListener, at: ListenOptions = {}) =>
  startServer(createTlsServer(options, answer), at);

/** Calls `respond` when the first bytes of a request arrive. */
export const rawServer = (respond: (socket: Socket) => void, at: ListenOptions = {}) =>
  startServer(
    createTcpServer((socket) => {
      socket.once('data', () => respond(socket));
    }),
    at,
  );

/** Writes `piece` as fast as the peer reads, until the peer closes the connection. */
export function writeEndlessly(socket: Socket, piece: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
    if (!socket.destroyed) socket.once('drain', more);
  };
  more();
}
