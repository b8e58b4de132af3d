/**
 * Which connections are closed when there are too many, on a real HTTP server with small limits.
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
let held: ServerResponse[];

/**
 * `/known` shows a credential; `/held` too, and is not answered; `/busy` shows none and is not
 * answered; `/tasks` waits for tasks.
 */
function serve(request: IncomingMessage, response: ServerResponse): void {
  if (request.url === '/busy') return;
  if (request.url !== '/') markIdentified(request.socket);
  if (request.url === '/held') {
    held.push(response);
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
  held = [];
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
async function client(path?: string): Promise<Socket & { heard: string }> {
  const counted = once(server, 'connection');
  const socket = Object.assign(connect((server.address() as AddressInfo).port, '127.0.0.1'), { heard: '' });
  socket.on('error', () => {});
  socket.on('data', (bytes) => {
    socket.heard += bytes;
  });
  clients.push(socket);
  await counted;
  if (path) await ask(socket, path);
  return socket;
}

async function ask(socket: Socket & { heard: string }, path: string): Promise<string> {
  socket.heard = '';
  const seen = once(server, 'request');
  socket.write(`GET ${path} HTTP/1.1\r\nhost: here\r\n\r\n`);
  await seen;
  return path === '/held' || path === '/busy'
    ? ''
    : until('an answer', () => (/\r\n\r\n\S/.test(socket.heard) ? socket.heard : undefined));
}

const many = async (count: number, path?: string) => {
  const opened = [];
  for (let each = 0; each < count; each++) opened.push(await client(path));
  return opened;
};
const closed = (sockets: Socket[]) => sockets.filter((socket) => socket.closed || socket.readableEnded).length;

test('closes the oldest connections without a credential of a source, and reports it once', async () => {
  const silent = await many(5);
  await until('the two oldest to be closed', () => closed(silent) === 2);
  expect(closed(silent.slice(2))).toBe(0);
  expect(connections.figures()).toMatchObject({ open: 3, closed_unknown: 2 });
  expect(notices).toBe(1);
});

test('keeps connections with a credential, however many come without one', async () => {
  const known = await many(7, '/known');
  await many(30);
  expect(closed(known)).toBe(0);
  for (const each of known) expect(await ask(each, '/known')).toContain('served');
});

test('applies only the total limit behind a trusted proxy', async () => {
  server.close();
  await open(true);
  const silent = await many(8);
  await until('the two oldest to be closed', () => closed(silent) === 2);
  expect(connections.figures()).toMatchObject({ open: 6, closed_unknown: 2 });
});

test('serves short requests from the reserve, and refuses long waits there', async () => {
  const held = await many(8, '/held');
  const short = await client('/known');
  expect(short.heard).toContain('served');
  expect(short.heard.toLowerCase()).toContain('connection: close');
  expect((await client('/tasks')).heard).toContain('refused');
  expect(closed(held)).toBe(0);
});

test('closes an idle connection before refusing a new one', async () => {
  const idle = await many(2, '/known');
  await many(6, '/held');
  const served = await client('/known');
  expect(served.heard).toContain('served');
  await until('an idle one to be closed', () => closed(idle) === 1);
  expect(connections.figures()).toMatchObject({ closed_idle: 1, refused: 0 });
});

test('closes the new connection when all others are busy', async () => {
  const known = await many(6, '/held');
  await many(3, '/busy');
  held[0]?.end('served');
  await until('one to be idle', () => known[0]?.heard.includes('served'));
  const fresh = await client();
  await until('the new one to be closed', () => closed([fresh]) === 1);
  expect(closed(known)).toBe(0);
  expect(connections.figures()).toMatchObject({ open: 9, closed_unknown: 1, closed_idle: 0, refused: 0 });
});

test('derives the limits from the number of open files', () => {
  expect(connectionCaps(600)).toEqual({ total: 472, reserved: 23, unknown: 236, unknown_source: 59 });
  expect(connectionCaps(20_000)).toMatchObject({ total: 18_000, unknown_source: 2_250 });
  expect(connectionCaps(10).total).toBe(64);
});
