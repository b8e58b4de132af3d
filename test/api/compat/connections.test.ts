/**
 * A client of a foreign protocol that has presented its join token keeps its connection while many
 * silent connections are open.
 */
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/calls.ts';
import { nodeRegistration } from '../support/compat-clients.ts';

it('keeps the connection of an AgentField node while it closes silent connections from the same address', async () => {
  const server = await spawnServer({ open_files: 600 });
  const { client, url } = server;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const silentSockets: Socket[] = [];
  try {
    await client.call('pool-put', { params: { pool: 'fleet' }, body: { driver: 'external' } });
    const { token: bearer } = await client.call('join-token-create', { params: { pool: 'fleet' } });
    const nodes = '/compat/agentfield/api/v1/nodes';
    expect((await send(url, 'POST', nodes, { bearer, body: nodeRegistration('scout') })).status).toBe(201);
    const headers = { authorization: `Bearer ${bearer}` };
    const readNode = () =>
      new Promise<{ status: number; isReused: boolean }>((resolve, reject) => {
        const outgoing = request(`${url}${nodes}/scout`, { agent, headers }, (reply) => {
          reply.resume().on('end', () => resolve({ status: reply.statusCode ?? 0, isReused: outgoing.reusedSocket }));
        });
        outgoing.on('error', reject);
        outgoing.end();
      });
    expect(await readNode()).toEqual({ status: 200, isReused: false });
    // Twice the limit for connections without a credential from one address.
    for (let count = 0; count < 120; count++) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => {});
      silentSockets.push(socket);
      await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    }
    await until(
      'the older silent connections to be closed',
      () => silentSockets.filter(({ closed }) => closed).length >= 60,
    );
    expect(await readNode()).toEqual({ status: 200, isReused: true });
  } finally {
    for (const socket of silentSockets) socket.destroy();
    agent.destroy();
    await server.stop();
  }
});
