/**
 * A server that may open only 600 files serves everyone else while a thousand clients never finish
 * their requests.
 */
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { callRoute } from '../support/calls.ts';

const openFiles = 600;
const slowClients = 1_000;
const openedAtOnce = 50;
const machines = 40;
/** People and health checks connect from another address than the slow clients. */
const otherAddress = '127.0.0.2';

const get = (url: string, headers: Record<string, string> = {}) =>
  new Promise<{ status: number; text: string }>((resolve, reject) => {
    const outgoing = request(url, { agent: false, localAddress: otherAddress, headers }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text }));
    });
    outgoing.on('error', reject);
    outgoing.end();
  });

/** Starts a request and never ends it. Reconnects when the server closes the connection. */
function startSlowClient(port: number, isOver: () => boolean): { sockets: Socket[]; first: Promise<unknown> } {
  const sockets: Socket[] = [];
  const open = () => {
    const socket = connect(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('connect', () => socket.write('GET /v1/nodes HTTP/1.1\r\nhost: localhost\r\n'));
    return Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {});
  };
  const first = open();
  void first.then(async () => {
    for (let line = 0; !isOver(); line++) {
      await pause(systemClock, 1_000);
      const last = sockets.at(-1);
      if (last?.closed) await open();
      else if (last?.writable) last.write(`x-${line}: slow\r\n`);
    }
  });
  return { sockets, first };
}

it('serves people, machines and health checks while 1,000 slow clients are connected, and logs that there are too many', async () => {
  const server = await spawnServer({ open_files: openFiles });
  const { client, url, token } = server;
  const agent = new Agent({ keepAlive: true, maxSockets: machines });
  let isOver = false;
  const slowSockets: Socket[][] = [];
  try {
    await client.call('pool-put', { params: { pool: 'fleet' }, body: { driver: 'external' } });
    const { token: join_token } = await client.call('join-token-create', { params: { pool: 'fleet' } });
    const registration = await callRoute(url, 'agent-register', { body: { join_token, name: 'm-1', version: 'test' } });
    const headers = {
      authorization: `Bearer ${registration.body.credential}`,
      'content-type': 'application/json',
    };
    /** Simulates one of several machines behind one address, each with its own open connection. */
    const beat = () =>
      new Promise<{ status: number; isReused: boolean }>((resolve, reject) => {
        const outgoing = request(`${url}/v1/agent/heartbeat`, { method: 'POST', agent, headers }, (reply) => {
          reply.resume().on('end', () => resolve({ status: reply.statusCode ?? 0, isReused: outgoing.reusedSocket }));
        });
        outgoing.on('error', reject);
        outgoing.end('{"status":"ready"}');
      });
    const beatAll = () => Promise.all(Array.from({ length: machines }, beat));
    await beatAll();

    const port = Number(new URL(url).port);
    for (let count = 0; count < slowClients; count += openedAtOnce) {
      const openedClients = Array.from({ length: openedAtOnce }, () => startSlowClient(port, () => isOver));
      slowSockets.push(...openedClients.map(({ sockets }) => sockets));
      await Promise.all(openedClients.map(({ first }) => first));
    }
    await until(
      'slow clients to be closed',
      () => slowSockets.flat().filter((socket) => socket.closed).length > slowClients / 2,
    );

    for (let times = 0; times < 10; times++) {
      expect((await get(`${url}/healthz`)).status).toBe(200);
      expect((await get(`${url}/v1/nodes`, { authorization: `Bearer ${token}` })).status).toBe(200);
    }
    const beats = await beatAll();
    expect(beats.every(({ status }) => status === 200)).toBe(true);
    expect(
      beats.every(({ isReused }) => isReused),
      'machines keep their connections',
    ).toBe(true);

    const lines = server
      .output()
      .split('\n')
      .filter((line) => line.includes('too many connections'));
    expect(lines.length, 'log lines about too many connections').toBeGreaterThan(0);
    expect(lines.length).toBeLessThan(slowClients / 10);
    const { text: metrics } = await get(`${url}/metrics`, { authorization: `Bearer ${token}` });
    expect(Number(/^slipway_connections (\d+)$/m.exec(metrics)?.[1])).toBeLessThan(openFiles);
  } finally {
    isOver = true;
    for (const socket of slowSockets.flat()) socket.destroy();
    agent.destroy();
    await server.stop();
  }
});
