/**
 * A tenant writes to the timeline of a machine that it no longer has, or reads what a machine
 * reported for the previous tenant.
 */
import type { Allocation } from '../../../src/contract/allocation.ts';
import { evidenceKinds } from '../../../src/contract/evidence/evidence-kinds.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import { callRoute } from '../../api/support/calls.ts';
import type { Machine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { reservedKinds } from '../support/fact-separation.ts';
import { allocate, createTenantToken, startMachineInNewPool } from '../support/tenancy.ts';

export async function release(
  server: SpawnedServer,
  token: string,
  { allocation_id: id }: Allocation,
  machine: Machine,
) {
  const client = server.as(token);
  await client.call('allocation-release', { params: { id } });
  await machine.work(async () => (await client.call('allocation-get', { params: { id } })).status === 'released');
}

const fact = (kind: string, ids: object) => ({ layer: 'transport', kind, summary: 'seen by a tenant', ...ids });

const post = async ({ url }: SpawnedServer, bearer: string, ...facts: object[]): Promise<boolean> =>
  (await callRoute(url, 'evidence-create', { body: { facts } }, { bearer })).status === 201;

export const formerTenantAttacks: Attack[] = [
  {
    name: 'posts a fact of a kind reserved for the server',
    without: reservedKinds,
    async succeeds(server) {
      const token = await createTenantToken(server, 'forger');
      await startMachineInNewPool(server, 'forged');
      const { allocation_id, node_id } = await allocate(server, token, 'forged');
      for (const kind of evidenceKinds)
        if (await post(server, token, fact(kind, { allocation_id, node_id }))) return true;
      return false;
    },
  },
  {
    name: 'states a fact about an allocation after its release',
    without: [
      {
        file: 'src/store/agents/outside-fact-ids.ts',
        find: " and allocation.status <> 'released'",
        replace: '',
      },
    ],
    async succeeds(server) {
      const token = await createTenantToken(server, 'former');
      const machine = await startMachineInNewPool(server, 'released');
      const allocation = await allocate(server, token, 'released');
      const { allocation_id, node_id } = allocation;
      if (!(await post(server, token, fact('ingress.seen', { allocation_id, node_id }))))
        throw new Error('a tenant could not state a fact about its own machine');
      await release(server, token, allocation, machine);
      return post(server, token, fact('ingress.seen', { allocation_id }));
    },
  },
  {
    name: 'states a fact about a former machine through a current allocation',
    without: [
      {
        file: 'src/store/agents/outside-fact-ids.ts',
        find: 'fact.node_id is distinct from own.node_id',
        replace: 'false',
      },
    ],
    async succeeds(server) {
      const token = await createTenantToken(server, 'mover');
      const machine = await startMachineInNewPool(server, 'moved-from');
      const formerAllocation = await allocate(server, token, 'moved-from');
      await release(server, token, formerAllocation, machine);
      await startMachineInNewPool(server, 'moved-to');
      const { allocation_id } = await allocate(server, token, 'moved-to');
      return post(server, token, fact('ingress.seen', { allocation_id, node_id: machine.node_id }));
    },
  },
  {
    name: 'reads the report that the machine sent for another tenant',
    without: [
      {
        file: 'src/store/agents/clear-reports.ts',
        find: 'set reported = null,',
        replace: 'set',
      },
    ],
    succeeds: (server) => nextTenantReads(server, 'reports', ['node-get', 'node-explain']),
  },
  {
    name: 'reads boot stages that the machine sent before the tenant got the machine',
    without: [
      {
        file: 'src/store/agents/clear-reports.ts',
        find: 'then clock_timestamp()\n        else $2::timestamptz',
        replace:
          'then least(beat.reports_since, $2::timestamptz)\n        else least(beat.reports_since, $2::timestamptz)',
      },
    ],
    succeeds: (server) => nextTenantReads(server, 'undated', ['node-boot', 'node-explain']),
  },
  {
    name: 'reads boot stages reported while another tenant had the machine',
    without: [
      {
        file: 'src/store/visibility.ts',
        find: 'and other.tenant <>',
        replace: 'and false and other.tenant <>',
      },
    ],
    succeeds: (server) => nextTenantReads(server, 'stages', ['node-boot', 'node-explain']),
  },
];

/**
 * Whether the next tenant can read through any of these routes what the machine reported for the
 * former tenant.
 */
async function nextTenantReads(server: SpawnedServer, pool: string, routes: OperationName[]): Promise<boolean> {
  const secret = `of-the-former-in-${pool}`;
  const formerToken = await createTenantToken(server, `${pool}-former`);
  const nextToken = await createTenantToken(server, `${pool}-next`);
  const machine = await startMachineInNewPool(server, pool);
  const allocation = await allocate(server, formerToken, pool);
  const message = { status: 'degraded', message: secret, error_rate: 0.7 };
  await machine.call('agent-heartbeat', { body: message });
  await machine.call('agent-boot', { body: { stages: [{ name: secret, seconds: 1 }] } });
  const isShownTo = async (bearer: string) => {
    const replies = routes.map((route) =>
      callRoute(server.url, route, { params: { id: machine.node_id } }, { bearer }),
    );
    return (await Promise.all(replies)).some(({ text }) => text.includes(secret));
  };
  await until('the former tenant to see the report', () => isShownTo(formerToken));
  await release(server, formerToken, allocation, machine);
  const { node_id } = await allocate(server, nextToken, pool);
  if (node_id !== machine.node_id) throw new Error('the next tenant got another machine');
  return isShownTo(nextToken);
}
