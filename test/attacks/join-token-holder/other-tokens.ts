/** The holder of one join token attacks machines that joined with another token. */
import { systemClock } from '../../../src/base/clock.ts';
import { agentField, protocolPool } from '../../api/support/compat-clients.ts';
import { openTables } from '../../api/support/tables.ts';
import { freePort } from '../../support/free-port.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const ready = { lifecycle_status: 'ready' };

const tokenOf = ({ client }: SpawnedServer, pool: string, body: object) =>
  client.call('join-token-create', { params: { pool }, body });

export const otherTokenAttacks: Attack[] = [
  {
    name: 'takes an AgentField machine from the spent token that admitted it',
    without: [
      {
        file: 'src/store/agents/register.ts',
        find: 'if (arrival?.join_token_id) await keepEarlierToken(tx, node_instance_id, arrival.join_token_id);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'evicted';
      const { token: attackers } = await protocolPool(server, pool);
      const { token: spent = '' } = await tokenOf(server, pool, { max_uses: 1 });
      const base_url = `http://127.0.0.1:${await freePort()}`;
      const victim = agentField(server.url, spent);
      await victim.register('victim', { ...ready, base_url });
      await agentField(server.url, attackers).register('victim', { ...ready, base_url });
      const beat = await victim.beat('victim', { status: 'ready' });
      const again = await victim.register('victim', { ...ready, base_url });
      return beat.status !== 200 || again.status !== 201;
    },
  },
  {
    name: "makes the server blame a machine's silence on a join token that ended later",
    without: [
      {
        file: 'src/lifecycle/findings/refused-beats.ts',
        find: '  wasHeardUntilEnd(refused, last_seen_at);',
        replace: '  (wasHeardUntilEnd(refused, last_seen_at) || true);',
      },
    ],
    async succeeds(server) {
      const pool = 'blamed';
      await protocolPool(server, pool);
      const ttl_seconds = 2;
      const { token = '', token_id } = await tokenOf(server, pool, { ttl_seconds });
      const started = systemClock.monotonicMs();
      const client = agentField(server.url, token);
      await client.register('victim', ready);
      const { items } = await server.client.call('node-list', { query: { pool } });
      const { node_id: id = '', node_instance_id } = items[0] ?? {};
      const tables = await openTables(server.database_url);
      try {
        await until('the token to have expired', async () => systemClock.monotonicMs() - started > 1000 * ttl_seconds);
        // It went silent an hour ago.
        await tables.query(
          "update heartbeats set last_seen_at = now() - interval '1 hour' where node_instance_id = $1",
          [node_instance_id],
        );
      } finally {
        await tables.close();
      }
      await until('the post to be on record', async () => {
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
