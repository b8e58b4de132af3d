/**
 * A relay sends heartbeats for machines whose credential it does not hold. The counter-tests add a
 * lookup of machines by their instance id.
 */
import { callRoute } from '../../api/support/calls.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import { openStream } from '../../api/support/stream-client.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';

const credentialCheck: SourceEdit[] = [
  {
    file: 'src/api/heartbeats/accept-batch.ts',
    find: "if (beat.credential === undefined) throw new ApiProblem('beat_credential_missing');",
    replace: '',
  },
  {
    file: 'src/api/heartbeats/accept-batch.ts',
    find: 'if (uncached.length === 0) return',
    replace: `for (const [index, beat] of beats.entries())
      if (beat.credential === undefined)
        byIndex[index] = await (sessions as any).findInstance((beat as any).node_instance_id);
    if (uncached.length === 0) return`,
  },
  {
    file: 'src/store/agents/sessions/agent-sessions.ts',
    find: '    renew,\n    async forgetFenced(id) {\n',
    replace:
      '    renew,\n    findInstance: async (id: any) => remember((await readById(id)) as never),\n    async forgetFenced(id) {\n',
  },
];

async function createVictimAndToken(server: SpawnedServer, pool: string): Promise<{ victim: Machine; token: string }> {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await server.client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await server.client.call('join-token-create', { params: { pool } });
  const victim = await startMachine(server.url, { join_token, name: 'victim' });
  await victim.beat('ready');
  const { token = '' } = await server.client.call('token-create', { body: { name: pool, role: 'relay', pool } });
  return { victim, token };
}

const readStatus = async ({ client }: SpawnedServer, { node_id }: Machine) =>
  (await client.call('node-get', { params: { id: node_id } })).status;

export const unprovenBeatAttacks: Attack[] = [
  {
    name: 'takes a machine offline with a heartbeat that has no credential',
    without: credentialCheck,
    async succeeds(server) {
      const { victim, token } = await createVictimAndToken(server, 'named-by-post');
      const beats = [{ node_instance_id: victim.node_instance_id, status: 'stopping' }];
      await callRoute(server.url, 'agent-heartbeats', { body: { beats } }, { bearer: token });
      return (await readStatus(server, victim)) === 'offline';
    },
  },
  {
    name: 'degrades a machine over the stream with a heartbeat that has no credential',
    without: credentialCheck,
    async succeeds(server) {
      const { victim, token } = await createVictimAndToken(server, 'named-by-stream');
      const stream = await openStream(server.url, token);
      const beats = [{ node_instance_id: victim.node_instance_id, status: 'degraded', error_rate: 1 }];
      stream.send({ seq: 1, beats });
      await until('the answer', () => stream.frames.length > 0);
      stream.socket.close(1000);
      return (await readStatus(server, victim)) === 'degraded';
    },
  },
  {
    name: 'keeps a dead machine alive with heartbeats that have no credential',
    without: credentialCheck,
    async succeeds(server) {
      const { victim, token } = await createVictimAndToken(server, 'kept-alive');
      const beats = [{ node_instance_id: victim.node_instance_id }];
      const { body } = await callRoute(server.url, 'agent-heartbeats', { body: { beats } }, { bearer: token });
      const [result] = body.results as { node_status?: string }[];
      return result?.node_status !== undefined;
    },
  },
];
