/** Real servers on loopback that behave well or badly; all of them end with the test that started them. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface LoopbackServer {
  port: number;
  /** Every connection that was ever made, also those that are closed. */
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
    // The probe hangs up in the middle of many of these exchanges; that is what is tested.
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

/** Calls `talk` when the first bytes of the request are there. */
export const rawServer = (talk: (socket: Socket) => void, place: Place = {}) =>
  listening(
    createTcpServer((socket) => {
      socket.once('data', () => talk(socket));
    }),
    place,
  );

/** Writes `piece` as fast as the other side takes it, until it hangs up. */
export function pour(socket: Socket, piece: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
    if (!socket.destroyed) socket.once('drain', more);
  };
  more();
}
