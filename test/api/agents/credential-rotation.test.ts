/**
 * A real agent rotates a short-lived credential in time. It also recovers after it was stopped
 * until the credential had expired.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type AgentBench, type AgentProcess, agentBench } from '../../../src/agent/testing/agent-process.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { openTables, type Tables } from '../support/tables.ts';

let server: SpawnedServer;
let tables: Tables;
let bench: AgentBench;
beforeAll(async () => {
  server = await spawnServer({ args: ['--credential-seconds', '6'] });
  tables = await openTables(server.database_url);
  bench = agentBench();
});
afterAll(async () => {
  await bench.clear();
  await tables.close();
  await server.stop();
});

const countEvidence = async (kind: string) =>
  Number((await tables.query<{ n: string }>('select count(*) as n from evidence where kind = $1', [kind]))[0]?.n);

const isExpired = async () =>
  (await tables.query('select 1 from instances where credential_expires_at < now()')).length > 0;

const hasHeartbeat = async (since: Date) =>
  (await tables.query('select 1 from heartbeats where last_seen_at > $1', [since])).length > 0;

const databaseNow = async () => (await tables.query<{ at: Date }>('select now() as at'))[0]?.at as Date;

const waitForBeat = async (event: string) => {
  const since = await databaseNow();
  await until(`a heartbeat after ${event}`, () => hasHeartbeat(since), { seconds: 60 });
};

it('rotates before the credential expires, after the agent was stopped, and after a restart', async () => {
  const pool = 'rotating';
  const heartbeat = { interval_seconds: 1, stale_after_seconds: 3600 };
  await server.client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { enrollment_token, node } = await server.client.call('node-create', { body: { pool, name: 'real' } });
  const { node_id, node_instance_id } = node;
  const dir = bench.dir();
  const start = (): AgentProcess =>
    bench.start(dir, { server_url: server.url, enrollment_token, node_id, node_instance_id });
  const agent = start();
  await until('two rotations', async () => (await countEvidence('credential.replaced')) >= 2, { seconds: 60 });
  expect(await countEvidence('beat.refused'), 'refused heartbeats').toBe(0);

  agent.kill('SIGSTOP');
  await until('the credential to expire', isExpired, { seconds: 60 });
  agent.kill('SIGCONT');
  await waitForBeat('the agent was stopped');

  agent.kill('SIGKILL');
  await agent.exit;
  await until('the credential to expire again', isExpired, { seconds: 60 });
  start();
  await waitForBeat('the agent was restarted');
  expect((await server.client.call('node-get', { params: { id: node_id } })).node_instance_id).toBe(node_instance_id);
  expect(await countEvidence('node.offline')).toBe(0);
});
