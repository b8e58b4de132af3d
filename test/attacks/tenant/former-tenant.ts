/** A tenant adds to the story of a machine that it no longer has, or reads what the one before left on it. */

import type { Allocation } from '../../../src/contract/allocation.ts';
import { evidenceKinds } from '../../../src/contract/evidence-kinds.ts';
import { callRoute } from '../../api/support/calls.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { openKinds } from '../support/open-kinds.ts';

async function machineIn({ client, url }: SpawnedServer, pool: string): Promise<Machine> {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  const machine = await startMachine(url, { join_token, name: 'shared' });
  await machine.beat('ready');
  return machine;
}

async function tenantOf({ client }: SpawnedServer, tenant: string): Promise<string> {
  const { token = '' } = await client.call('token-create', { body: { name: tenant, role: 'operator', tenant } });
  return token;
}

async function allocate(server: SpawnedServer, token: string, pool: string): Promise<Allocation> {
  const client = server.as(token);
  const { allocation } = await client.call('allocation-create', { body: { pool } });
  return until('the allocation to be active', async () => {
    const now = await client.call('allocation-get', { params: { id: allocation.allocation_id } });
    return now.status === 'active' ? now : undefined;
  });
}

async function release(server: SpawnedServer, token: string, { allocation_id: id }: Allocation, machine: Machine) {
  const client = server.as(token);
  await client.call('allocation-release', { params: { id } });
  await machine.work(async () => (await client.call('allocation-get', { params: { id } })).status === 'released');
}

const fact = (kind: string, ids: object) => ({ layer: 'transport', kind, summary: 'seen by a tenant', ...ids });

const post = async ({ url }: SpawnedServer, bearer: string, ...facts: object[]): Promise<boolean> =>
  (await callRoute(url, 'evidence-create', { body: { facts } }, { bearer })).status === 201;

export const formerTenantAttacks: Attack[] = [
  {
    name: '3: posts a fact of a kind that the server writes',
    without: openKinds,
    async succeeds(server) {
      const token = await tenantOf(server, 'forger');
      await machineIn(server, 'forged');
      const { allocation_id, node_id } = await allocate(server, token, 'forged');
      for (const kind of evidenceKinds)
        if (await post(server, token, fact(kind, { allocation_id, node_id }))) return true;
      return false;
    },
  },
  {
    name: '3: adds to the story of a machine after its release',
    without: [
      {
        file: 'src/store/outside-facts.ts',
        find: "(allocation.tenant <> $2 or allocation.status = 'released')",
        replace: 'allocation.tenant <> $2',
      },
      {
        file: 'src/store/outside-facts.ts',
        find: 'fact.node_id is distinct from own.node_id',
        replace: 'fact.node_id is distinct from allocation.node_id',
      },
    ],
    async succeeds(server) {
      const token = await tenantOf(server, 'former');
      const machine = await machineIn(server, 'released');
      const allocation = await allocate(server, token, 'released');
      const { allocation_id, node_id } = allocation;
      if (!(await post(server, token, fact('ingress.seen', { allocation_id, node_id }))))
        throw new Error('a tenant may tell of the machine that it has');
      await release(server, token, allocation, machine);
      return post(server, token, fact('ingress.seen', { allocation_id, node_id }));
    },
  },
];
