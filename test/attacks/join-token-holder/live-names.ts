/**
 * A process with its own join token attacks the name of a live AgentField process whose address
 * does not answer.
 */
import { agentFieldClient, createProtocolPool } from '../../api/support/compat-clients.ts';
import { openTables } from '../../api/support/tables.ts';
import { freePort } from '../../support/free-port.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const poolOptions = { heartbeat: { stale_after_seconds: 24 * 3600 }, probe: { allow_private: true } };
const readyFields = { lifecycle_status: 'ready' };
const duplicatesFile = 'src/lifecycle/joins/duplicates.ts';
/** A few more processes than the server stores for one name. */
const manyProcesses = 20;

async function startLiveProcess(server: SpawnedServer, pool: string) {
  const { token } = await createProtocolPool(server, pool, poolOptions);
  const attackerToken = await server.client.call('join-token-create', { params: { pool }, body: {} });
  const attacker = agentFieldClient(server.url, attackerToken.token ?? '');
  const base_url = `http://127.0.0.1:${await freePort()}`;
  const client = agentFieldClient(server.url, token);
  const register = () => client.register('victim', { ...readyFields, instance_id: 'victim', base_url });
  const beat = () => client.beat('victim', { status: 'ready', instance_id: 'victim' });
  const node = async () => {
    const { items } = await server.client.call('node-list', { query: { pool } });
    if (!items[0]) throw new Error(`there is no node in ${pool}`);
    return items[0];
  };
  // The server judges a registration by the heartbeats in the table.
  const waitForStoredHeartbeat = () =>
    until('the node to have a stored heartbeat', async () => {
      const tables = await openTables(server.database_url);
      const rows = await tables
        .query(
          `select 1 from heartbeats join nodes using (node_instance_id) where nodes.pool = $1 and stale_seconds > 3600`,
          [pool],
        )
        .finally(() => tables.close());
      return rows.length > 0;
    });
  await register();
  await beat();
  await waitForStoredHeartbeat();
  return {
    base_url,
    node,
    untilStored: waitForStoredHeartbeat,
    attacker,
    forged: { ...readyFields, base_url: `http://127.0.0.1:${await freePort()}` },
    /**
     * Sends a heartbeat. Like the SDK, registers again if the server answers 404.
     */
    async beatOrRegister() {
      if ((await beat()).status === 404) await register();
    },
  };
}

export const liveNameAttacks: Attack[] = [
  {
    name: 'takes the name of a live AgentField process and keeps the name',
    without: [
      {
        file: duplicatesFile,
        find: "place < holder ? 'takes_back' : 'refused'",
        replace: "place < 0 ? 'refused' : 'restart'",
      },
    ],
    async succeeds(server) {
      const { beatOrRegister, node, base_url, untilStored, attacker, forged } = await startLiveProcess(
        server,
        'displaced',
      );
      for (let turn = 0; turn < 3; turn++) {
        await attacker.register('victim', { ...forged, instance_id: 'attacker' });
        await untilStored();
        await beatOrRegister();
        await untilStored();
      }
      await attacker.register('victim', { ...forged, instance_id: 'attacker' });
      return (await node()).endpoint !== base_url;
    },
  },
  {
    name: 'takes the name of a live AgentField process by registering without an instance id',
    without: [
      { file: duplicatesFile, find: "return keep === 'first' ? 'refused' : 'restart';", replace: "return 'restart';" },
    ],
    async succeeds(server) {
      const { beatOrRegister, node, base_url, attacker, forged } = await startLiveProcess(server, 'nameless');
      await attacker.register('victim', forged);
      await beatOrRegister();
      return (await node()).endpoint !== base_url;
    },
  },
  {
    name: 'makes the server forget a live AgentField process by registering many others',
    without: [{ file: duplicatesFile, find: 'known.findLastIndex(', replace: 'known.findIndex(' }],
    async succeeds(server) {
      const { beatOrRegister, node, base_url, untilStored, attacker, forged } = await startLiveProcess(
        server,
        'forgotten',
      );
      for (let turn = 0; turn < manyProcesses; turn++) {
        const instance_id = `attacker-${turn}`;
        await attacker.register('victim', { ...forged, instance_id });
        if (turn < manyProcesses - 1) await attacker.call('POST', '/nodes/victim/shutdown', { instance_id });
      }
      await untilStored();
      await beatOrRegister();
      return (await node()).endpoint !== base_url;
    },
  },
  {
    name: 'makes the server store an unlimited number of processes for one name',
    without: [
      { file: duplicatesFile, find: 'known.length < maxProcesses) return', replace: 'known.length >= 0) return' },
    ],
    async succeeds(server) {
      const { node, attacker, forged } = await startLiveProcess(server, 'flooded');
      for (let turn = 0; turn < manyProcesses; turn++) {
        const instance_id = `${turn} ${'x'.repeat(100)}`;
        await attacker.register('victim', { ...forged, instance_id });
        await attacker.call('POST', '/nodes/victim/shutdown', { instance_id });
      }
      const tables = await openTables(server.database_url);
      const [row] = await tables
        .query<{ count: number }>(
          'select jsonb_array_length(client_processes) as count from instances where node_instance_id = $1',
          [(await node()).node_instance_id],
        )
        .finally(() => tables.close());
      return (row?.count ?? 0) >= manyProcesses;
    },
  },
];

/** Runs with `behindDistantProxy`: the attacker is not the proxy that the server trusts. */
export const forgedSourceAttacks: Attack[] = [
  {
    name: 'uses X-Forwarded-For to forge the address in the finding about two live processes',
    without: [
      {
        file: 'src/api/http/source-address.ts',
        find: '    if (!proxies.trusts(address)) return address;\n',
        replace: '',
      },
    ],
    async succeeds(server) {
      const { beatOrRegister, node, untilStored, attacker, forged } = await startLiveProcess(server, 'forged-source');
      const forge = () =>
        attacker.call(
          'POST',
          '/nodes/register',
          { id: 'victim', ...forged, instance_id: 'attacker' },
          { headers: { 'x-forwarded-for': '198.51.100.66' } },
        );
      const answer = await forge();
      if (answer.status !== 201) throw new Error(`the attacker was not taken for a restart: ${answer.text}`);
      await untilStored();
      await beatOrRegister();
      const { node_id } = await node();
      const { items } = await server.client.call('drift-list', { query: { kind: 'identity', node_id } });
      if (items[0]?.what !== 'name_contested') throw new Error('there is no finding about the two processes');
      return JSON.stringify(items[0]).includes('198.51.100.66');
    },
  },
];
