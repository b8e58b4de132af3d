/**
 * Tests which connections are closed when there are too many, on a real HTTP server with small
 * limits.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import { trustedProxies } from '../../../base/network/trusted-proxies.ts';
import type { OperationName } from '../../../contract/routes.ts';
import {
  admitOnConnection,
  type Connections,
  connectionCaps,
  createConnections,
  markIdentified,
} from './connections.ts';

const caps = { total: 12, reserved: 4, unknown: 6, unknown_source: 3 };
let server: Server;
let connections: Connections;
let notices: number;
let clients: Socket[];
let heldResponses: ServerResponse[];

/**
 * `/known` and `/tasks` are identified; `/tasks` is a wait for tasks. `/held` is identified but not
 * answered. `/busy` is neither identified nor answered.
 */
function serve(request: IncomingMessage, response: ServerResponse): void {
  if (request.url === '/busy') return;
  if (request.url !== '/') markIdentified(request.socket);
  if (request.url === '/held') {
    heldResponses.push(response);
    return;
  }
  const name: OperationName = request.url === '/tasks' ? 'agent-task-next' : 'node-get';
  try {
    admitOnConnection({ raw: request } as FastifyRequest, name);
    response.end('served');
  } catch {
    response.writeHead(429).end('refused');
  }
}

async function open(behindProxy = false) {
  notices = 0;
  clients = [];
  heldResponses = [];
  server = createServer(serve);
  connections = createConnections({
    clock: systemClock,
    caps,
    proxies: trustedProxies(behindProxy ? ['loopback'] : []),
    onPressure: () => notices++,
  });
  connections.watch(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}
beforeEach(() => open());
afterEach(() => {
  for (const client of clients) client.destroy();
  server.closeAllConnections();
  server.close();
});

/** Resolves once the server has counted the connection. */
async function openClient(path?: string): Promise<Socket & { received: string }> {
  const counted = once(server, 'connection');
  const socket = Object.assign(connect((server.address() as AddressInfo).port, '127.0.0.1'), { received: '' });
  socket.on('error', () => {});
  socket.on('data', (bytes) => {
    socket.received += bytes;
  });
  clients.push(socket);
  await counted;
  if (path) await get(socket, path);
  return socket;
}

async function get(socket: Socket & { received: string }, path: string): Promise<string> {
  socket.received = '';
  const requested = once(server, 'request');
  socket.write(`GET ${path} HTTP/1.1\r\nhost: here\r\n\r\n`);
  await requested;
  return path === '/held' || path === '/busy'
    ? ''
    : until('an answer', () => (/\r\n\r\n\S/.test(socket.received) ? socket.received : undefined));
}

const openClients = async (count: number, path?: string) => {
  const sockets = [];
  for (let each = 0; each < count; each++) sockets.push(await openClient(path));
  return sockets;
};
const countClosed = (sockets: Socket[]) => sockets.filter((socket) => socket.closed || socket.readableEnded).length;

test('closes the oldest connections of a source without a credential, and reports the pressure once', async () => {
  const silent = await openClients(5);
  await until('the two oldest to be closed', () => countClosed(silent) === 2);
  expect(countClosed(silent.slice(2))).toBe(0);
  expect(connections.figures()).toMatchObject({ open: 3, closed_unknown: 2 });
  expect(notices).toBe(1);
});

test('keeps connections with a credential, however many others are opened', async () => {
  const known = await openClients(7, '/known');
  await openClients(30);
  expect(countClosed(known)).toBe(0);
  for (const each of known) expect(await get(each, '/known')).toContain('served');
});

test('applies only the total limit behind a trusted proxy', async () => {
  server.close();
  await open(true);
  const silent = await openClients(8);
  await until('the two oldest to be closed', () => countClosed(silent) === 2);
  expect(connections.figures()).toMatchObject({ open: 6, closed_unknown: 2 });
});

test('serves short requests on reserved connections, and refuses long waits there', async () => {
  const held = await openClients(8, '/held');
  const short = await openClient('/known');
  expect(short.received).toContain('served');
  expect(short.received.toLowerCase()).toContain('connection: close');
  expect((await openClient('/tasks')).received).toContain('refused');
  expect(countClosed(held)).toBe(0);
});

test('closes an idle connection before refusing a new one', async () => {
  const idle = await openClients(2, '/known');
  await openClients(6, '/held');
  const served = await openClient('/known');
  expect(served.received).toContain('served');
  await until('an idle connection to be closed', () => countClosed(idle) === 1);
  expect(connections.figures()).toMatchObject({ closed_idle: 1, refused: 0 });
});

test('closes the new connection when all others are busy', async () => {
  const known = await openClients(6, '/held');
  await openClients(3, '/busy');
  heldResponses[0]?.end('served');
  await until('a connection to be idle', () => known[0]?.received.includes('served'));
  const newClient = await openClient();
  await until('the new connection to be closed', () => countClosed([newClient]) === 1);
  expect(countClosed(known)).toBe(0);
  expect(connections.figures()).toMatchObject({ open: 9, closed_unknown: 1, closed_idle: 0, refused: 0 });
});

test('derives the limits from the number of files that the process may open', () => {
  expect(connectionCaps(600)).toEqual({ total: 472, reserved: 23, unknown: 236, unknown_source: 59 });
  expect(connectionCaps(20_000)).toMatchObject({ total: 18_000, unknown_source: 2_250 });
  expect(connectionCaps(10).total).toBe(64);
});
