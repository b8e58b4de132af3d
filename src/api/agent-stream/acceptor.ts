/** Makes WebSockets of requests that were let in. The library is loaded when the first of them comes: most servers never see one. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { type Clock, now } from '../../base/clock.ts';
import { agentRoutes } from '../../contract/routes/agent.ts';

/** A beat is small, a batch is not. */
const mostBytes = { agent: 16 * 1024, relay: agentRoutes['agent-heartbeats'].body_limit_bytes };

export interface Upgrade {
  request: IncomingMessage;
  socket: Socket;
  head: Buffer;
}

/** `serve` is called before anything can come by the connection; not at all where the caller has left meanwhile. */
export type Accept = (kind: 'agent' | 'relay', upgrade: Upgrade, serve: (socket: WebSocket) => void) => void;

export interface Acceptor {
  load(): Promise<Accept>;
}

async function loadServers(clock: Clock) {
  const { WebSocketServer } = await import('ws');
  const server = (maxPayload: number) => {
    const made = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload,
      // The library would answer pings without end to somebody who reads none of the answers; the wire answers them within its bounds.
      autoPong: false,
    });
    // Agents learn the time from whatever answers them.
    made.on('headers', (headers) => headers.push(`Date: ${now(clock).toUTCString()}`));
    return made;
  };
  return { agent: server(mostBytes.agent), relay: server(mostBytes.relay) };
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
