/** Nodes, and what is known about them: timeline, logs, boot stages. */
import { now, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { AuditQuery, JoinedTimelineQuery } from '../../contract/evidence/evidence.ts';
import { startsOf } from '../../lifecycle/boots/boot-chart.ts';
import { expectNode } from '../../operations/provision/expect-node.ts';
import { readBootStages } from '../../store/agents/boot-stages.ts';
import { usualStages } from '../../store/evidence/because.ts';
import { parseCursor, readTimeline } from '../../store/evidence/evidence.ts';
import { readTenantTimeline } from '../../store/evidence/tenant-timeline.ts';
import { cutBefore } from '../../store/history/retention.ts';
import { nodesAt } from '../../store/history/time-travel.ts';
import { parseLogCursor, readLines } from '../../store/logs/node-logs.ts';
import { listNodes } from '../../store/rows/fleet/node-list.ts';
import { isTenantsNode, readNode } from '../../store/rows/nodes.ts';
import { pageOf } from '../http/paging.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { callerOf } from './allocations.ts';

const defaultLimit = 100;
/** Clocks differ a little. */
const mostAheadSeconds = 5 * 60;
/** Lines that reach another replica are found at the next look; those that reach this one wake the reader. */
const followWaitMs = 2_000;
const followWaits = 12;

async function mustFindNode(id: string, tenant: string | null, services: ApiServices) {
  const node = await readNode(services.db, id, tenant);
  if (!node) throw new ApiProblem('node_not_found');
  return node;
}

/** A tenant may read what belongs to its allocations also after the node went to somebody else. */
async function mustBeKnown(id: string, tenant: string | null, services: ApiServices): Promise<void> {
  const known = tenant === null ? await readNode(services.db, id) : await isTenantsNode(services.db, id, tenant);
  if (!known) throw new ApiProblem('node_not_found');
}

function timeline(
  query: JoinedTimelineQuery | AuditQuery | undefined,
  tenant: string | null,
  services: ApiServices,
  more: { audited?: boolean; node_id?: string } = {},
) {
  const { cursor, limit, ...filter } = query ?? {};
  const parsed = cursor === undefined ? undefined : parseCursor(cursor);
  if (cursor !== undefined && !parsed) throw new ApiProblem('invalid_cursor');
  const asked = { ...filter, ...more, cursor: parsed, limit: limit ?? defaultLimit };
  return tenant === null ? readTimeline(services.db, asked) : readTenantTimeline(services.db, tenant, asked);
}

type NodeRoutes =
  | 'node-create'
  | 'node-list'
  | 'node-get'
  | 'node-state'
  | 'node-timeline'
  | 'node-logs'
  | 'node-boot'
  | 'timeline-get'
  | 'audit-list';

export const nodeHandlers: Pick<Handlers, NodeRoutes> = {
  async 'node-create'(call, services) {
    const { node_id, enrollment_token } = await expectNode(services, call.body, callerOf(call));
    return { node: await mustFindNode(node_id, null, services), enrollment_token };
  },
  'node-list': async ({ query, person }, services) =>
    listNodes(services.db, { ...pageOf(query), tenant: person().tenant }),
  'node-get': ({ params, person }, services) => mustFindNode(params.id, person().tenant, services),
  async 'node-state'({ params, query, person }, services) {
    const asked = new Date(query.at);
    const present = now(services.clock);
    if (asked > secondsLater(present, mostAheadSeconds))
      throw new ApiProblem('invalid_request', {
        detail: `Nobody knows yet how it will stand; here it is ${present.toISOString()}.`,
        errors: [{ path: '/query/at', message: 'must not lie ahead' }],
      });
    // Whose clock is a little ahead asks for the present, and is told so.
    const at = asked < present ? asked : present;
    const cut = await cutBefore(services.db);
    if (cut && at < cut)
      throw new ApiProblem(
        'evidence_cut',
        `Evidence from before ${cut.toISOString()} was dropped; ask for a later moment.`,
      );
    const [stood] = await nodesAt(services.db, [{ id: params.id, at }]);
    const { tenant } = person();
    // A tenant sees a machine as it stood while it was its own.
    if (!stood || (tenant !== null && stood.tenant !== tenant))
      throw new ApiProblem('node_not_found', 'No such node, or it was not there at that moment.');
    return stood.state;
  },
  async 'node-timeline'({ params, query, person }, services) {
    await mustBeKnown(params.id, person().tenant, services);
    return timeline(query, person().tenant, services, { node_id: params.id });
  },
  async 'node-logs'({ params, query, person, request, reply }, services) {
    const tenant = person().tenant;
    await mustBeKnown(params.id, tenant, services);
    const { cursor, before: from, limit, follow, ...filter } = query ?? {};
    let after = cursor === undefined ? undefined : parseLogCursor(cursor);
    const before = from === undefined ? undefined : parseLogCursor(from);
    if ((cursor !== undefined && !after) || (from !== undefined && !before)) throw new ApiProblem('invalid_cursor');
    if (follow) services.places.log_follows.hold(person(), reply);
    const gone = () => request.raw.destroyed;
    const read = () =>
      readLines(services.db, {
        ...filter,
        node_id: params.id,
        after,
        before,
        tenant,
        limit: limit ?? defaultLimit,
        gone,
      });
    // Only the first read goes through the whole log; the ones below begin where it ended.
    const endSearch = filter.q || filter.since ? services.places.log_searches.take(person()) : () => {};
    let page = await read().finally(endSearch);
    let next_cursor = page.next_cursor ?? cursor ?? null;
    const isWaiting = () => page.items.length === 0 && page.continue_at === null && !gone();
    for (let waits = 0; follow && isWaiting() && waits < followWaits; waits++) {
      await services.arrivals.next(params.id, followWaitMs);
      // What was searched in vain is not searched again.
      after = next_cursor === null ? undefined : parseLogCursor(next_cursor);
      page = await read();
      next_cursor = page.next_cursor ?? next_cursor;
    }
    return { ...page, next_cursor };
  },
  async 'node-boot'({ params, query, person }, services) {
    const tenant = person().tenant;
    const node = await mustFindNode(params.id, tenant, services);
    const instance = query?.instance ?? node.node_instance_id;
    if (tenant !== null && instance !== node.node_instance_id)
      throw new ApiProblem('node_not_found', 'That instance is not visible to this tenant.');
    const stages = instance ? await readBootStages(services.db, node.node_id, instance, tenant) : [];
    const usual = await usualStages(services.db, node.pool, instance ?? '');
    const starts = startsOf(stages);
    return {
      node_id: node.node_id,
      node_instance_id: instance,
      stages: stages.map((stage, at) => ({
        ...stage,
        starts_seconds: starts[at] ?? 0,
        usual_seconds: usual.get(stage.name) ?? null,
      })),
    };
  },
  async 'timeline-get'({ query, person }, services) {
    const named = (['node_id', 'node_instance_id', 'correlation_id', 'allocation_id', 'workflow_id'] as const).some(
      (id) => query?.[id] !== undefined,
    );
    if (!named)
      throw new ApiProblem(
        'invalid_request',
        'Name at least one of node_id, node_instance_id, correlation_id, allocation_id, workflow_id.',
      );
    return timeline(query, person().tenant, services);
  },
  'audit-list': ({ query, person }, services) => timeline(query, person().tenant, services, { audited: true }),
};
