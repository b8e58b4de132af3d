/** The holder of one join token attacks machines that joined with another token. */
import { systemClock } from '../../../src/base/clock.ts';
import { agentFieldClient, createProtocolPool } from '../../api/support/compat-clients.ts';
import { openTables } from '../../api/support/tables.ts';
import { freePort } from '../../support/free-port.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const readyFields = { lifecycle_status: 'ready' };

const createJoinToken = ({ client }: SpawnedServer, pool: string, body: object) =>
  client.call('join-token-create', { params: { pool }, body });

export const otherTokenAttacks: Attack[] = [
  {
    name: "registers an AgentField machine with another token, so that the machine's own token is refused",
    without: [
      {
        file: 'src/store/agents/register.ts',
        find: 'if (arrival?.join_token_id) await addEarlierToken(tx, node_instance_id, arrival.join_token_id);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'evicted';
      const { token: attackerToken } = await createProtocolPool(server, pool);
      const { token: victimToken = '' } = await createJoinToken(server, pool, { max_uses: 1 });
      const base_url = `http://127.0.0.1:${await freePort()}`;
      const victim = agentFieldClient(server.url, victimToken);
      await victim.register('victim', { ...readyFields, base_url });
      await agentFieldClient(server.url, attackerToken).register('victim', { ...readyFields, base_url });
      const beat = await victim.beat('victim', { status: 'ready' });
      const repeatedRegistration = await victim.register('victim', { ...readyFields, base_url });
      return beat.status !== 200 || repeatedRegistration.status !== 201;
    },
  },
  {
    name: "makes the server blame a machine's silence on a join token that expired later",
    without: [
      {
        file: 'src/lifecycle/findings/refused-beats.ts',
        find: '  wasHeardUntilEnd(refused, last_seen_at);',
        replace: '  (wasHeardUntilEnd(refused, last_seen_at) || true);',
      },
    ],
    async succeeds(server) {
      const pool = 'blamed';
      await createProtocolPool(server, pool);
      const ttl_seconds = 2;
      const { token = '', token_id } = await createJoinToken(server, pool, { ttl_seconds });
      const startedMs = systemClock.monotonicMs();
      const client = agentFieldClient(server.url, token);
      await client.register('victim', readyFields);
      const { items } = await server.client.call('node-list', { query: { pool } });
      const { node_id: id = '', node_instance_id } = items[0] ?? {};
      const tables = await openTables(server.database_url);
      try {
        await until(
          'the token to have expired',
          async () => systemClock.monotonicMs() - startedMs > 1000 * ttl_seconds,
        );
        // Backdate the last heartbeat to an hour ago, long before the token expired.
        await tables.query(
          "update heartbeats set last_seen_at = now() - interval '1 hour' where node_instance_id = $1",
          [node_instance_id],
        );
      } finally {
        await tables.close();
      }
      await until('the refused heartbeat to be recorded', async () => {
        await client.beat('victim', { status: 'ready' });
        const { items } = await server.client.call('node-timeline', {
          params: { id },
          query: { kind: 'beat.refused' },
        });
        return items.length > 0;
      });
      const { waiting_for } = await server.client.call('node-explain', { params: { id } });
      return waiting_for?.includes(token_id) ?? false;
    },
  },
];
