/** Creates tenants for an attack, and machines that serve them. */
import type { Allocation } from '../../../src/contract/allocation.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

export async function startMachineInNewPool({ client, url }: SpawnedServer, pool: string): Promise<Machine> {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  const machine = await startMachine(url, { join_token, name: 'shared' });
  await machine.beat('ready');
  return machine;
}

export async function createTenantToken({ client }: SpawnedServer, tenant: string, name = tenant): Promise<string> {
  const { token = '' } = await client.call('token-create', { body: { name, role: 'operator', tenant } });
  return token;
}

export async function allocate(server: SpawnedServer, token: string, pool: string): Promise<Allocation> {
  const client = server.as(token);
  const { allocation } = await client.call('allocation-create', { body: { pool } });
  return until('the allocation to be active', async () => {
    const current = await client.call('allocation-get', { params: { id: allocation.allocation_id } });
    return current.status === 'active' ? current : undefined;
  });
}
