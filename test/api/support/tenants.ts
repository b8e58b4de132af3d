/** A server with two tenants, each with a machine of its own in an external pool. */
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Client } from '../../../src/contract/client.ts';
import type { TokenRole } from '../../../src/contract/security/token.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { type Machine, startMachine } from './machine.ts';
import { openTables, type Tables } from './tables.ts';

export interface Tenant {
  name: string;
  token: string;
  client: Client;
  machine: Machine;
  allocation: Allocation;
}

export interface TenantFixture extends TestServer {
  tables: Tables;
  tokenFor(
    role: TokenRole,
    options?: { tenant?: string; pool?: string; ttl_seconds?: number },
  ): Promise<{ token: string; token_id: string }>;
  join_token: string;
  acme: Tenant;
  globex: Tenant;
}

export const externalPool = 'outside';

export async function externalServer(
  serverOptions: Parameters<typeof inProcessServer>[0] = {},
): Promise<Omit<TenantFixture, 'acme' | 'globex'>> {
  const server = await inProcessServer(serverOptions);
  const tables = await openTables(server.database_url);
  // A machine sends heartbeats only when a test asks for them, and must not count as silent in
  // between.
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await server.client.call('pool-put', { params: { pool: externalPool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await server.client.call('join-token-create', { params: { pool: externalPool } });
  let tokenCount = 0;
  return {
    ...server,
    tables,
    join_token,
    async tokenFor(role, options = {}) {
      const reply = await server.client.call('token-create', {
        body: { name: `test-${++tokenCount}`, role, ...options },
      });
      return { token: reply.token ?? '', token_id: reply.token_id };
    },
    async stop() {
      await tables.close();
      await server.stop();
    },
  };
}

export async function readyMachine(fixture: Pick<TenantFixture, 'url' | 'join_token'>, name: string): Promise<Machine> {
  const machine = await startMachine(fixture.url, { join_token: fixture.join_token, name });
  await machine.beat('ready');
  return machine;
}

/** Re-enrols the node of a stopped machine, which fences its former instance. */
export async function reenroll(
  fixture: Pick<TenantFixture, 'url' | 'client'>,
  former: Pick<Machine, 'node_id'>,
): Promise<Machine> {
  const { enrollment_token = '', operation } = await fixture.client.call('node-act', {
    params: { id: former.node_id, action: 're-enroll' },
    body: { reason: 'its disk was replaced' },
  });
  const machine = await startMachine(fixture.url, { enrollment_token });
  await machine.beat('ready');
  const params = { id: operation?.workflow_id ?? '' };
  await machine.work(async () => (await fixture.client.call('operation-get', { params })).status === 'succeeded');
  return machine;
}

export const waitUntilActive = (client: Client, id: string): Promise<Allocation> =>
  until('the allocation to be active', async () => {
    const allocation = await client.call('allocation-get', { params: { id } });
    return allocation.status === 'active' ? allocation : undefined;
  });

/** Waits until all operations have ended, so that later changes come from the test. */
export const waitForOperations = (client: Client): Promise<boolean> =>
  until('all operations to have ended', async () => {
    const { items } = await client.call('operation-list', {});
    return items.every(({ status }) => status === 'succeeded' || status === 'failed' || status === 'cancelled');
  });

/**
 * Leaves out the ingest watch. It would record a gap and move deadlines whenever the in-process
 * server stalls on a busy machine.
 */
export const withoutIngestWatch: Composition = {
  sweeps: (registry) => registry.filter(({ name }) => name !== 'ingest-watch'),
};

/** Each machine joins just before its tenant allocates one, so that each tenant gets its own. */
export async function tenantFixture(options?: Parameters<typeof inProcessServer>[0]): Promise<TenantFixture> {
  const server = await externalServer(options);
  const tenant = async (name: string): Promise<Tenant> => {
    const machine = await readyMachine(server, `${name}-machine`);
    const { token } = await server.tokenFor('operator', { tenant: name });
    const client = server.as(token);
    const createReply = await client.call('allocation-create', { body: { pool: externalPool, name: `${name}-claim` } });
    const allocation = await waitUntilActive(client, createReply.allocation.allocation_id);
    await machine.log(1, `${name} keeps this to itself`);
    await machine.call('agent-boot', { body: { stages: [{ name: `${name}-stage`, seconds: 1 }] } });
    return { name, token, client, machine, allocation };
  };
  const fixture = { ...server, acme: await tenant('acme'), globex: await tenant('globex') };
  await waitForOperations(server.client);
  return fixture;
}
