/**
 * Turns admitted requests into WebSockets. Loads the library on first use, since most servers never
 * need it.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { type Clock, now } from '../../base/clock.ts';
import { agentRoutes } from '../../contract/routes/agent.ts';

/** An agent sends single heartbeats; a relay sends batches, which are much larger. */
const maxBytes = { agent: 16 * 1024, relay: agentRoutes['agent-heartbeats'].body_limit_bytes };

export interface Upgrade {
  request: IncomingMessage;
  socket: Socket;
  head: Buffer;
}

/** Calls `serve` before the first message can arrive, or never if the caller has disconnected. */
export type Accept = (kind: 'agent' | 'relay', upgrade: Upgrade, serve: (socket: WebSocket) => void) => void;

export interface Acceptor {
  load(): Promise<Accept>;
}

async function loadServers(clock: Clock) {
  const { WebSocketServer } = await import('ws');
  const createServer = (maxPayload: number) => {
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload,
      // The library would queue pongs without limit for a peer that does not read; wire.ts limits
      // them.
      autoPong: false,
    });
    // Agents read the server's time from the Date header of every answer.
    server.on('headers', (headers) => headers.push(`Date: ${now(clock).toUTCString()}`));
    return server;
  };
  return { agent: createServer(maxBytes.agent), relay: createServer(maxBytes.relay) };
}

export function createAcceptor(clock: Clock): Acceptor {
  let loading: ReturnType<typeof loadServers> | undefined;
  return {
    async load() {
      loading ??= loadServers(clock);
      const servers = await loading;
      return (kind, { request, socket, head }, serve) => servers[kind].handleUpgrade(request, socket, head, serve);
    },
  };
}
