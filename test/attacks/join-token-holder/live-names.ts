/**
 * A process with its own join token attacks the name of a live AgentField process whose address
 * does not answer.
 */
import { agentField, protocolPool } from '../../api/support/compat-clients.ts';
import { openTables } from '../../api/support/tables.ts';
import { freePort } from '../../support/free-port.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const patient = { heartbeat: { stale_after_seconds: 24 * 3600 }, probe: { allow_private: true } };
const ready = { lifecycle_status: 'ready' };
const duplicates = 'src/lifecycle/joins/duplicates.ts';
/** As many as the server remembers, and a few more. */
const many = 20;

async function liveProcess(server: SpawnedServer, pool: string) {
  const { token } = await protocolPool(server, pool, patient);
  const own = await server.client.call('join-token-create', { params: { pool }, body: {} });
  const attacker = agentField(server.url, own.token ?? '');
  const base_url = `http://127.0.0.1:${await freePort()}`;
  const client = agentField(server.url, token);
  const register = () => client.register('victim', { ...ready, instance_id: 'victim', base_url });
  const beat = () => client.beat('victim', { status: 'ready', instance_id: 'victim' });
  const node = async () => {
    const { items } = await server.client.call('node-list', { query: { pool } });
    if (!items[0]) throw new Error(`no node in ${pool}`);
    return items[0];
  };
  // The server judges a registration by the heartbeats in the table.
  const isHeard = () =>
    until('the beat of the holder to be in the table', async () => {
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
  await isHeard();
  return {
    base_url,
    node,
    isHeard,
    attacker,
    forged: { ...ready, base_url: `http://127.0.0.1:${await freePort()}` },
    /** Like the SDK: registers again when a heartbeat is refused as unknown. */
    async goesOn() {
      if ((await beat()).status === 404) await register();
    },
  };
}

export const liveNameAttacks: Attack[] = [
  {
    name: 'keeps the name of a live AgentField process that it displaced',
    without: [
      {
        file: duplicates,
        find: "place < holder ? 'takes_back' : 'refused'",
        replace: "place < 0 ? 'refused' : 'restart'",
      },
    ],
    async succeeds(server) {
      const { goesOn, node, base_url, isHeard, attacker, forged } = await liveProcess(server, 'displaced');
      for (let turn = 0; turn < 3; turn++) {
        await attacker.register('victim', { ...forged, instance_id: 'attacker' });
        await isHeard();
        await goesOn();
        await isHeard();
      }
      await attacker.register('victim', { ...forged, instance_id: 'attacker' });
      return (await node()).endpoint !== base_url;
    },
  },
  {
    name: 'takes the name of a live AgentField process without naming its own',
    without: [
      { file: duplicates, find: "return keep === 'first' ? 'refused' : 'restart';", replace: "return 'restart';" },
    ],
    async succeeds(server) {
      const { goesOn, node, base_url, attacker, forged } = await liveProcess(server, 'nameless');
      await attacker.register('victim', forged);
      await goesOn();
      return (await node()).endpoint !== base_url;
    },
  },
  {
    name: 'makes the server forget a live AgentField process by registering many others',
    without: [{ file: duplicates, find: 'known.findLastIndex(', replace: 'known.findIndex(' }],
    async succeeds(server) {
      const { goesOn, node, base_url, isHeard, attacker, forged } = await liveProcess(server, 'forgotten');
      for (let turn = 0; turn < many; turn++) {
        const instance_id = `attacker-${turn}`;
        await attacker.register('victim', { ...forged, instance_id });
        if (turn < many - 1) await attacker.call('POST', '/nodes/victim/shutdown', { instance_id });
      }
      await isHeard();
      await goesOn();
      return (await node()).endpoint !== base_url;
    },
  },
  {
    name: 'floods the list of processes that had a name',
    without: [{ file: duplicates, find: 'known.length < maxProcesses) return', replace: 'known.length >= 0) return' }],
    async succeeds(server) {
      const { node, attacker, forged } = await liveProcess(server, 'flooded');
      for (let turn = 0; turn < many; turn++) {
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
      return (row?.count ?? 0) >= many;
    },
  },
];

/** Runs with `behindDistantProxy`: the attacker is not the proxy that the server trusts. */
export const forgedSourceAttacks: Attack[] = [
  {
    name: 'forges the address in the finding about two live processes with X-Forwarded-For',
    without: [
      {
        file: 'src/api/http/source-address.ts',
        find: '    if (!proxies.trusts(address)) return address;\n',
        replace: '',
      },
    ],
    async succeeds(server) {
      const { goesOn, node, isHeard, attacker, forged } = await liveProcess(server, 'forged-source');
      const forge = () =>
        attacker.call(
          'POST',
          '/nodes/register',
          { id: 'victim', ...forged, instance_id: 'attacker' },
          { headers: { 'x-forwarded-for': '198.51.100.66' } },
        );
      const taken = await forge();
      if (taken.status !== 201) throw new Error(`the attacker is told from a restart: ${taken.text}`);
      await isHeard();
      await goesOn();
      const { node_id } = await node();
      const { items } = await server.client.call('drift-list', { query: { kind: 'identity', node_id } });
      if (items[0]?.what !== 'name_contested') throw new Error('no finding names the two processes');
      return JSON.stringify(items[0]).includes('198.51.100.66');
    },
  },
];
