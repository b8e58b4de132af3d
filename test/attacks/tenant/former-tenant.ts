/**
 * A tenant writes to the timeline of a machine that it no longer has, or reads what the previous
 * tenant left on it.
 */
import type { Allocation } from '../../../src/contract/allocation.ts';
import { evidenceKinds } from '../../../src/contract/evidence/evidence-kinds.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import { callRoute } from '../../api/support/calls.ts';
import type { Machine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { openKinds } from '../support/open-kinds.ts';
import { allocate, createTenantToken, machineIn } from '../support/tenancy.ts';

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
    without: openKinds,
    async succeeds(server) {
      const token = await createTenantToken(server, 'forger');
      await machineIn(server, 'forged');
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
      const machine = await machineIn(server, 'released');
      const allocation = await allocate(server, token, 'released');
      const { allocation_id, node_id } = allocation;
      if (!(await post(server, token, fact('ingress.seen', { allocation_id, node_id }))))
        throw new Error('a tenant may tell of the machine that it has');
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
      const machine = await machineIn(server, 'moved-from');
      const former = await allocate(server, token, 'moved-from');
      await release(server, token, former, machine);
      await machineIn(server, 'moved-to');
      const { allocation_id } = await allocate(server, token, 'moved-to');
      return post(server, token, fact('ingress.seen', { allocation_id, node_id: machine.node_id }));
    },
  },
  {
    name: "reads reports of the machine from another tenant's time",
    without: [
      {
        file: 'src/store/agents/clear-reports.ts',
        find: 'set reported = null,',
        replace: 'set',
      },
    ],
    succeeds: (server) => readsOfFormer(server, 'reports', ['node-get', 'node-explain']),
  },
  {
    name: 'reads the boot stages of a machine without a handover date',
    without: [
      {
        file: 'src/store/agents/clear-reports.ts',
        find: 'then clock_timestamp()\n        else $2::timestamptz',
        replace:
          'then least(beat.reports_since, $2::timestamptz)\n        else least(beat.reports_since, $2::timestamptz)',
      },
    ],
    succeeds: (server) => readsOfFormer(server, 'undated', ['node-boot', 'node-explain']),
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
    succeeds: (server) => readsOfFormer(server, 'stages', ['node-boot', 'node-explain']),
  },
];

/**
 * Whether the next tenant can read, through any of these routes, what the machine reported for the
 * former one.
 */
async function readsOfFormer(server: SpawnedServer, pool: string, routes: OperationName[]): Promise<boolean> {
  const secret = `of-the-former-in-${pool}`;
  const former = await createTenantToken(server, `${pool}-former`);
  const next = await createTenantToken(server, `${pool}-next`);
  const machine = await machineIn(server, pool);
  const allocation = await allocate(server, former, pool);
  const message = { status: 'degraded', message: secret, error_rate: 0.7 };
  await machine.call('agent-heartbeat', { body: message });
  await machine.call('agent-boot', { body: { stages: [{ name: secret, seconds: 1 }] } });
  const shownTo = async (bearer: string) => {
    const replies = routes.map((route) =>
      callRoute(server.url, route, { params: { id: machine.node_id } }, { bearer }),
    );
    return (await Promise.all(replies)).some(({ text }) => text.includes(secret));
  };
  await until('the former tenant to be shown it', () => shownTo(former));
  await release(server, former, allocation, machine);
  const { node_id } = await allocate(server, next, pool);
  if (node_id !== machine.node_id) throw new Error('the next tenant was given another machine');
  return shownTo(next);
}
