/** A TCP server that accepts every connection and never answers. */
import { createServer, type ListenOptions, type Socket } from 'node:net';

export interface SilentListener {
  port: number | null;
  close(): Promise<void>;
}

export async function silentListener(at: ListenOptions): Promise<SilentListener> {
  const connections = new Set<Socket>();
  const server = createServer((socket) => connections.add(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(at, resolve));
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : null,
    async close() {
      for (const connection of connections) connection.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
