/**
 * `GET /v1/agent/stream`: upgrades an HTTP request to a WebSocket. The request passes the same
 * checks as any other first, so a refusal is an ordinary HTTP reply.
 */
import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { agentRoutes } from '../../contract/routes/agent.ts';
import { bearerOf } from '../http/auth.ts';
import type { Handler } from '../services.ts';
import type { Upgrade } from './acceptor.ts';
import { serveAgent } from './serve-agent.ts';
import { serveRelay } from './serve-relay.ts';

const crowdedRetrySeconds = 10;
const stoppingRetrySeconds = 1;

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

const asksForWebSocket = ({ headers }: IncomingMessage) =>
  headers.upgrade?.toLowerCase() === 'websocket' &&
  headers['sec-websocket-version'] === '13' &&
  /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '');

/**
 * Whether a request asks for the agent stream. Any other upgrade request is served as plain HTTP.
 */
export const asksForAgentStream = (request: IncomingMessage): boolean =>
  request.method === 'GET' &&
  request.url?.split('?', 1)[0] === agentRoutes['agent-stream'].path &&
  asksForWebSocket(request);

export function serveUpgrades(app: FastifyInstance): void {
  (app.server as Server).on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    upgrades.set(request, { request, socket, head });
    // The client may disconnect before the answer; without a listener the error would crash the
    // process.
    socket.on('error', () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    // Ending the response is not enough: a client that never closes its side would keep the server
    // from stopping.
    response.on('finish', () => socket.destroySoon());
    app.routing(request, response);
  });
}

export const agentStream: Handler<'agent-stream'> = async ({ request, reply, correlation_id }, services) => {
  const { relay, agent_session: session } = request;
  const { agentStreams } = services;
  const upgrade = upgrades.get(request.raw);
  if (!upgrade) {
    reply.header('upgrade', 'websocket').header('sec-websocket-version', '13');
    throw new ApiProblem('upgrade_required');
  }
  const accept = await agentStreams.acceptor.load();
  if (agentStreams.isStopping()) throw new ApiProblem('not_ready', { retry_after_seconds: stoppingRetrySeconds });
  if (!agentStreams.hasRoom()) throw new ApiProblem('rate_limited', { retry_after_seconds: crowdedRetrySeconds });

  reply.hijack();
  reply.raw.detachSocket(upgrade.socket);
  const credential = bearerOf(request) ?? '';
  if (relay) accept('relay', upgrade, (socket) => serveRelay(socket, { relay, correlation_id }, services));
  else if (session)
    accept('agent', upgrade, (socket) => serveAgent(socket, { session, credential, correlation_id }, services));
  return undefined;
};
