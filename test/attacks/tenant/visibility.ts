/** A tenant looks for other tenants' rows through every route that lists something. */
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';
import { callRoute, type Input } from '../../api/support/calls.ts';
import { openEvents } from '../../api/support/event-reader.ts';
import type { Machine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { allocate, createTenantToken, startMachineInNewPool } from '../support/tenancy.ts';

interface ServedTenant {
  allocation_id: string;
  node_id: string;
  token: string;
}

async function createServedTenant(server: SpawnedServer, name: string): Promise<ServedTenant> {
  const token = await createTenantToken(server, `${name}-victim`);
  const { node_id } = await startMachineInNewPool(server, name);
  const { allocation_id } = await allocate(server, token, name);
  return { allocation_id, node_id, token };
}

const edit = (file: string, find: string, replace: string): SourceEdit => ({ file, find, replace });

/**
 * An attack that finds an item of another tenant in a list. First waits until its owner sees it.
 */
const listAttack = (
  name: string,
  route: OperationName,
  defence: SourceEdit,
  inputFor: (victim: ServedTenant) => Input = () => ({ query: { limit: '100' } }),
): Attack => ({
  name,
  without: [defence],
  async succeeds(server) {
    const victim = await createServedTenant(server, `listed-by-${route}`);
    const input = inputFor(victim);
    const isShownTo = async (bearer: string) => {
      const { text } = await callRoute(server.url, route, input, { bearer });
      return text.includes(victim.allocation_id) || text.includes(victim.node_id);
    };
    await until('the owner to see the item', () => isShownTo(victim.token));
    return isShownTo(await createTenantToken(server, `${route}-attacker`));
  },
});

/** An attack in which a machine's former tenant reads what the machine reports for the next one. */
const formerTenantAttack = (name: string, route: OperationName, defence: SourceEdit): Attack => ({
  name,
  without: [defence],
  async succeeds(server) {
    const pool = `next-${route}`;
    const [former, next] = [
      await createTenantToken(server, `${pool}-former`),
      await createTenantToken(server, `${pool}-owner`),
    ];
    const machine: Machine = await startMachineInNewPool(server, pool);
    const { allocation_id: id } = await allocate(server, former, pool);
    await server.as(former).call('allocation-release', { params: { id } });
    const isReleased = async () =>
      (await server.as(former).call('allocation-get', { params: { id } })).status === 'released';
    await machine.work(isReleased);
    await allocate(server, next, pool);
    const secret = `said-in-${pool}`;
    await machine.log(1, secret);
    const fact = { at: '2030-01-01T00:00:00Z', layer: 'node', kind: 'app.said', summary: secret };
    await machine.call('agent-evidence', { body: { facts: [fact] } });
    const isShownTo = async (bearer: string) => {
      const answer = await callRoute(server.url, route, { params: { id: machine.node_id } }, { bearer });
      return answer.text.includes(secret);
    };
    await until('the present tenant to see the report', () => isShownTo(next));
    return isShownTo(former);
  },
});

/** States a fact about an allocation as its tenant. */
const stateFact = async (server: SpawnedServer, { token, allocation_id }: ServedTenant, summary: string) => {
  const facts = [{ layer: 'operator', kind: 'deploy.done', summary, allocation_id }];
  const { status } = await callRoute(server.url, 'evidence-create', { body: { facts } }, { bearer: token });
  if (status !== 201) throw new Error(`the fact was refused: ${status}`);
};

/**
 * Whether a tenant's stream shows a fact that another tenant stated just before this tenant's fact.
 */
async function streamShows(server: SpawnedServer, name: string, query: string): Promise<boolean> {
  const victim = await createServedTenant(server, `${name}-a`);
  const attacker = await createServedTenant(server, `${name}-b`);
  const open = () => openEvents(server.url, attacker.token, query);
  const earlyReader = query.includes('cursor') ? undefined : await open();
  await stateFact(server, victim, `secret-of-${name}`);
  await stateFact(server, attacker, `end-of-${name}`);
  const reader = earlyReader ?? (await open());
  await reader.waitFor('its own fact', ({ data }) => data.summary === `end-of-${name}`);
  await reader.close();
  return reader.events.some(({ data }) => data.summary === `secret-of-${name}`);
}

const streamFilter = edit(
  'src/api/stream/stream-events.ts',
  'if (!isVisible(fact.allocation_id, batch, filter)) return false;',
  '',
);
const nodesFile = 'src/api/routes/nodes.ts';
const allocationsFile = 'src/api/routes/allocations.ts';

const fleetOnlyRoutes = (Object.entries(routes) as [OperationName, RouteDeclaration][]).flatMap(
  ([name, { method, params, access }]) =>
    method === 'GET' && !params && access.kind === 'person' && access.tenants === 'none' ? [name] : [],
);

export const visibilityAttacks: Attack[] = [
  listAttack(
    'tenancy: lists the allocations of another tenant',
    'allocation-list',
    edit(
      allocationsFile,
      'narrowToTenant(person().visibility, query?.tenant)',
      "narrowToTenant({ kind: 'fleet' }, query?.tenant)",
    ),
  ),
  listAttack(
    'tenancy: lists the operations of another tenant',
    'operation-list',
    edit(
      allocationsFile,
      'listOperations(services.db, { ...readPageQuery(query), visibility: person().visibility }',
      "listOperations(services.db, { ...readPageQuery(query), visibility: person && { kind: 'fleet' } }",
    ),
  ),
  listAttack(
    'tenancy: lists the machines of another tenant',
    'node-list',
    edit(
      nodesFile,
      'listNodes(services.db, { ...readPageQuery(query), visibility: person().visibility })',
      "listNodes(services.db, { ...readPageQuery(query), visibility: person && { kind: 'fleet' } })",
    ),
  ),
  listAttack(
    'tenancy: reads the machines of another tenant through the fleet route',
    'fleet-get',
    edit('src/api/routes/fleet.ts', 'visibility: person().visibility', "visibility: person && { kind: 'fleet' }"),
  ),
  listAttack(
    'tenancy: reads the timeline of an allocation of another tenant',
    'timeline-get',
    edit(
      nodesFile,
      'readTimeline(query, person().visibility, services);',
      "readTimeline(query, { kind: 'fleet' }, services);",
    ),
    ({ allocation_id }) => ({ query: { allocation_id } }),
  ),
  listAttack(
    'tenancy: finds an allocation of another tenant by its id',
    'thing-find',
    edit(
      'src/api/routes/find.ts',
      'readAllocations(db, resolved.allocations, visibility, at)',
      "readAllocations(db, resolved.allocations, { kind: 'fleet' }, at)",
    ),
    ({ allocation_id }) => ({ query: { id: allocation_id } }),
  ),
  formerTenantAttack(
    'tenancy: reads the timeline of a machine after it went to another tenant',
    'node-timeline',
    edit(
      nodesFile,
      'readTimeline(query, person().visibility, services, { node_id',
      "readTimeline(query, { kind: 'fleet' }, services, { node_id",
    ),
  ),
  formerTenantAttack(
    'tenancy: reads the log of a machine after it went to another tenant',
    'node-logs',
    edit(nodesFile, 'before,\n        visibility,', "before,\n        visibility: { kind: 'fleet' },"),
  ),
  {
    name: 'tenancy: sees the facts of another tenant in its live stream',
    without: [streamFilter],
    succeeds: (server) => streamShows(server, 'live', '?topics=evidence'),
  },
  {
    // The store filters history and the stream filters again, so both are removed;
    // visible-evidence.test.ts tests the store alone.
    name: 'tenancy: reads the history of another tenant from an old cursor',
    without: [
      streamFilter,
      edit('src/store/evidence/evidence.ts', "ofOwnAllocation(filter.visibility, 'scanned', bind)", '[]'),
    ],
    succeeds: (server) => streamShows(server, 'history', '?topics=evidence&cursor=0-0'),
  },
  {
    name: "tenancy: lists what only the fleet's operators may list",
    without: [
      edit(
        'src/api/http/auth.ts',
        "if (!mayCall(person.visibility, access.tenants)) throw new ApiProblem('scope_insufficient');",
        '',
      ),
    ],
    async succeeds(server) {
      const body = { name: 'tenant-admin', role: 'admin', tenant: 'curious' } as const;
      const { token: bearer = '' } = await server.client.call('token-create', { body });
      const answers = await Promise.all(fleetOnlyRoutes.map((name) => callRoute(server.url, name, {}, { bearer })));
      if (answers.length < 10) throw new Error('fewer fleet-only routes were called than exist');
      return answers.some(({ status }) => status === 200);
    },
  },
];
