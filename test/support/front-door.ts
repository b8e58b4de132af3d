/** One address for several servers, as a load balancer gives it: connections go to the first that answers. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface FrontDoor {
  url: string;
  /** Where new connections go from now on, in this order. */
  leadTo(ports: number[]): void;
  close(): Promise<void>;
}

export async function openFrontDoor(): Promise<FrontDoor> {
  let ports: number[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const join = (visitor: Socket, [port, ...others]: number[]): void => {
    if (port === undefined) return void visitor.destroy();
    const inner = keep(connect(port, '127.0.0.1'));
    let joined = false;
    inner.on('connect', () => {
      joined = true;
      visitor.pipe(inner).pipe(visitor);
    });
    inner.on('error', () => (joined ? visitor.destroy() : join(visitor, others)));
    inner.on('close', () => joined && visitor.destroy());
    visitor.on('close', () => inner.destroy());
  };
  const server = createServer((visitor) => {
    keep(visitor).on('error', () => visitor.destroy());
    join(visitor, ports);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (!address || typeof address === 'string') throw new Error('no port was given');
  return {
    url: `http://127.0.0.1:${address.port}`,
    leadTo(next) {
      ports = next;
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
