/** Restarts a real relay and the server under real agents: no machine may get a verdict. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type AgentBench, agentBench } from '../../../src/agent/testing/agent-process.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { type Relay, startRelay } from '../../../src/relay/relay.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { openTables, type Tables } from '../support/tables.ts';

const pool = 'rack';
const names = ['one', 'two', 'three'];

let formerServer: SpawnedServer;
let server: SpawnedServer;
let relay: Relay;
let tables: Tables;
let bench: AgentBench;
let token: string;

const listenOptions = {
  host: '127.0.0.1',
  ca: null,
  tls_cert: null,
  tls_key: null,
  behind_proxy: false,
  log_level: 'silent',
};
const startRelayAt = (port: number): Promise<Relay> =>
  startRelay(
    { ...listenOptions, port, server_urls: [formerServer.url], token },
    { clock: systemClock, log: createLog({ level: 'silent' }) },
  );

beforeAll(async () => {
  formerServer = await spawnServer();
  server = formerServer;
  tables = await openTables(formerServer.database_url);
  bench = agentBench();
  const heartbeat = { interval_seconds: 1 };
  await formerServer.client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  ({ token = '' } = await formerServer.client.call('token-create', { body: { name: 'rack', role: 'relay', pool } }));
  relay = await startRelayAt(0);
});
afterAll(async () => {
  await bench.clear();
  await relay.stop();
  await tables.close();
  if (server !== formerServer) await server.stop();
  await formerServer.stop();
});

const readLastSeenMs = async () =>
  (await tables.query<{ at: Date }>('select last_seen_at as at from heartbeats order by node_instance_id')).map(
    ({ at }) => at.getTime(),
  );

const waitForHeartbeats = async (what: string) => {
  const lastSeenBeforeMs = Math.max(...(await readLastSeenMs()));
  await until(what, async () => (await readLastSeenMs()).every((at) => at > lastSeenBeforeMs), { seconds: 60 });
};

it('forwards heartbeats again after a restart of the relay and of the server, and no node leaves ready', async () => {
  for (const name of names) {
    const { enrollment_token, node } = await server.client.call('node-create', { body: { pool, name } });
    const { node_id, node_instance_id } = node;
    bench.start(bench.dir(), { server_url: relay.url, enrollment_token, node_id, node_instance_id });
  }
  const readStatuses = async () =>
    (await tables.query<{ status: string }>('select status from nodes')).map(({ status }) => status);
  await until('all nodes to be ready', async () => (await readStatuses()).join() === names.map(() => 'ready').join());

  const port = Number(new URL(relay.url).port);
  await relay.stop();
  relay = await startRelayAt(port);
  await waitForHeartbeats('a heartbeat of every machine through the new relay');

  await formerServer.kill();
  server = await spawnServer({ beside: formerServer, port: Number(new URL(formerServer.url).port) });
  await waitForHeartbeats('a heartbeat of every machine at the new server');

  expect(await readStatuses()).toEqual(names.map(() => 'ready'));
  const verdicts = "select kind from evidence where kind in ('node.offline', 'node.failed', 'beat.refused')";
  expect(await tables.query(verdicts)).toEqual([]);
});
