/** A tenant looks for other tenants' rows through every route that lists something. */
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';
import { callRoute, type Input } from '../../api/support/calls.ts';
import { openEvents } from '../../api/support/event-reader.ts';
import type { Machine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { allocate, createTenantToken, machineIn } from '../support/tenancy.ts';

interface Victim {
  allocation_id: string;
  node_id: string;
  token: string;
}

async function victimIn(server: SpawnedServer, name: string): Promise<Victim> {
  const token = await createTenantToken(server, `${name}-victim`);
  const { node_id } = await machineIn(server, name);
  const { allocation_id } = await allocate(server, token, name);
  return { allocation_id, node_id, token };
}

const edit = (file: string, find: string, replace: string): SourceEdit => ({ file, find, replace });

/**
 * Whether a list shows the attacker an item of another tenant, which that tenant itself is shown.
 */
const lists = (
  name: string,
  route: OperationName,
  defence: SourceEdit,
  asks: (victim: Victim) => Input = () => ({ query: { limit: '100' } }),
): Attack => ({
  name,
  without: [defence],
  async succeeds(server) {
    const victim = await victimIn(server, `listed-by-${route}`);
    const input = asks(victim);
    const shows = async (bearer: string) => {
      const { text } = await callRoute(server.url, route, input, { bearer });
      return text.includes(victim.allocation_id) || text.includes(victim.node_id);
    };
    await until('its owner to be shown it', () => shows(victim.token));
    return shows(await createTenantToken(server, `${route}-attacker`));
  },
});

/** Whether a machine's former tenant can read what the machine reports for the next one. */
const readsOfNext = (name: string, route: OperationName, defence: SourceEdit): Attack => ({
  name,
  without: [defence],
  async succeeds(server) {
    const pool = `next-${route}`;
    const [former, next] = [
      await createTenantToken(server, `${pool}-former`),
      await createTenantToken(server, `${pool}-owner`),
    ];
    const machine: Machine = await machineIn(server, pool);
    const { allocation_id: id } = await allocate(server, former, pool);
    await server.as(former).call('allocation-release', { params: { id } });
    const released = async () =>
      (await server.as(former).call('allocation-get', { params: { id } })).status === 'released';
    await machine.work(released);
    await allocate(server, next, pool);
    const secret = `said-in-${pool}`;
    await machine.log(1, secret);
    const fact = { at: '2030-01-01T00:00:00Z', layer: 'node', kind: 'app.said', summary: secret };
    await machine.call('agent-evidence', { body: { facts: [fact] } });
    const shows = async (bearer: string) => {
      const answer = await callRoute(server.url, route, { params: { id: machine.node_id } }, { bearer });
      return answer.text.includes(secret);
    };
    await until('its present tenant to be shown it', () => shows(next));
    return shows(former);
  },
});

/** States a fact about an allocation as its tenant. */
const state = async (server: SpawnedServer, { token, allocation_id }: Victim, summary: string) => {
  const facts = [{ layer: 'operator', kind: 'deploy.done', summary, allocation_id }];
  const { status } = await callRoute(server.url, 'evidence-create', { body: { facts } }, { bearer: token });
  if (status !== 201) throw new Error(`the fact was not taken: ${status}`);
};

/** Whether a tenant's stream shows a fact that another tenant stated before the reader's own. */
async function streamShows(server: SpawnedServer, name: string, query: string): Promise<boolean> {
  const victim = await victimIn(server, `${name}-a`);
  const attacker = await victimIn(server, `${name}-b`);
  const open = () => openEvents(server.url, attacker.token, query);
  const early = query.includes('cursor') ? undefined : await open();
  await state(server, victim, `secret-of-${name}`);
  await state(server, attacker, `end-of-${name}`);
  const reader = early ?? (await open());
  await reader.waitFor('its own fact', ({ data }) => data.summary === `end-of-${name}`);
  await reader.close();
  return reader.events.some(({ data }) => data.summary === `secret-of-${name}`);
}

const streamFilter = edit(
  'src/api/stream/stream-events.ts',
  'if (!isVisible(fact.allocation_id, batch, filter)) return false;',
  '',
);
const nodes = 'src/api/routes/nodes.ts';
const allocations = 'src/api/routes/allocations.ts';

const fleetOnly = (Object.entries(routes) as [OperationName, RouteDeclaration][]).flatMap(
  ([name, { method, params, access }]) =>
    method === 'GET' && !params && access.kind === 'person' && access.tenants === 'none' ? [name] : [],
);

export const visibilityAttacks: Attack[] = [
  lists(
    'tenancy: lists the allocations of another tenant',
    'allocation-list',
    edit(
      allocations,
      'narrowToTenant(person().visibility, query?.tenant)',
      "narrowToTenant({ kind: 'fleet' }, query?.tenant)",
    ),
  ),
  lists(
    'tenancy: lists the operations of another tenant',
    'operation-list',
    edit(
      allocations,
      'listOperations(services.db, { ...pageOf(query), visibility: person().visibility }',
      "listOperations(services.db, { ...pageOf(query), visibility: person && { kind: 'fleet' } }",
    ),
  ),
  lists(
    'tenancy: lists the machines of another tenant',
    'node-list',
    edit(
      nodes,
      'listNodes(services.db, { ...pageOf(query), visibility: person().visibility })',
      "listNodes(services.db, { ...pageOf(query), visibility: person && { kind: 'fleet' } })",
    ),
  ),
  lists(
    'tenancy: reads the machines of another tenant in the compact fleet',
    'fleet-get',
    edit('src/api/routes/fleet.ts', 'visibility: person().visibility', "visibility: person && { kind: 'fleet' }"),
  ),
  lists(
    'tenancy: reads the timeline of an allocation of another tenant',
    'timeline-get',
    edit(
      nodes,
      'readTimeline(query, person().visibility, services);',
      "readTimeline(query, { kind: 'fleet' }, services);",
    ),
    ({ allocation_id }) => ({ query: { allocation_id } }),
  ),
  lists(
    'tenancy: finds an allocation of another tenant by its id',
    'thing-find',
    edit(
      'src/api/routes/find.ts',
      'readAllocations(db, resolved.allocations, visibility, at)',
      "readAllocations(db, resolved.allocations, { kind: 'fleet' }, at)",
    ),
    ({ allocation_id }) => ({ query: { id: allocation_id } }),
  ),
  readsOfNext(
    'tenancy: reads the timeline of a machine after it went to another tenant',
    'node-timeline',
    edit(
      nodes,
      'readTimeline(query, person().visibility, services, { node_id',
      "readTimeline(query, { kind: 'fleet' }, services, { node_id",
    ),
  ),
  readsOfNext(
    'tenancy: reads the log of a machine after it went to another tenant',
    'node-logs',
    edit(nodes, 'before,\n        visibility,', "before,\n        visibility: { kind: 'fleet' },"),
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
        "if (access.tenants === 'none' && person.visibility.kind !== 'fleet') throw new ApiProblem('scope_insufficient');",
        '',
      ),
    ],
    async succeeds(server) {
      const body = { name: 'tenant-admin', role: 'admin', tenant: 'curious' } as const;
      const { token: bearer = '' } = await server.client.call('token-create', { body });
      const answers = await Promise.all(fleetOnly.map((name) => callRoute(server.url, name, {}, { bearer })));
      if (answers.length < 10) throw new Error('there are more such routes');
      return answers.some(({ status }) => status === 200);
    },
  },
];
