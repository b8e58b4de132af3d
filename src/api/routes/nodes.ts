/** Handles nodes and their timelines, logs and boot stages. Actions are in explanations.ts. */
import { now, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { AuditQuery, JoinedTimelineQuery } from '../../contract/evidence/evidence.ts';
import { computeStageStarts } from '../../lifecycle/boots/boot-chart.ts';
import { canSee, type Visibility } from '../../lifecycle/visibility.ts';
import { expectNode } from '../../operations/provision/expect-node.ts';
import { readBootStages } from '../../store/agents/boot-stages.ts';
import { parseCursor } from '../../store/evidence/commit-order.ts';
import { readUsualStages } from '../../store/evidence/explanation-evidence.ts';
import { readVisibleTimeline } from '../../store/evidence/tenant-timeline.ts';
import { readNewestCut } from '../../store/history/retention.ts';
import { rebuildNodesAt } from '../../store/history/time-travel.ts';
import { parseLogCursor, readLines } from '../../store/logs/node-logs.ts';
import { listNodes } from '../../store/rows/fleet/node-list.ts';
import { isKnownNode, readNode } from '../../store/rows/nodes.ts';
import { readPageQuery } from '../http/paging.ts';
import { notFoundProblem } from '../http/replies/gone.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { callerOf } from './allocations.ts';

const defaultLimit = 100;
/** Tolerates small clock differences. */
const maxAheadSeconds = 5 * 60;
/**
 * Lines that arrive at this replica wake the reader. Lines that arrive at other replicas are found
 * when this time is over.
 */
const followWaitMs = 2_000;
const maxFollowWaits = 12;

async function mustFindNode(id: string, visibility: Visibility, services: ApiServices) {
  const node = await readNode(services.db, id, visibility);
  if (!node) throw await notFoundProblem('node', id, visibility, services);
  return node;
}

/** A tenant may read the records of its allocations even after the node went to another tenant. */
async function mustBeKnown(id: string, visibility: Visibility, services: ApiServices): Promise<void> {
  if (!(await isKnownNode(services.db, id, visibility))) throw await notFoundProblem('node', id, visibility, services);
}

function readTimeline(
  query: JoinedTimelineQuery | AuditQuery | undefined,
  visibility: Visibility,
  services: ApiServices,
  more: { audited?: boolean; node_id?: string } = {},
) {
  const { cursor, limit, ...filter } = query ?? {};
  const parsed = cursor === undefined ? undefined : parseCursor(cursor);
  if (cursor !== undefined && !parsed) throw new ApiProblem('invalid_cursor');
  const timelineQuery = { ...filter, ...more, cursor: parsed, limit: limit ?? defaultLimit };
  return readVisibleTimeline(services.db, visibility, timelineQuery);
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
    return { node: await mustFindNode(node_id, call.person().visibility, services), enrollment_token };
  },
  'node-list': async ({ query, person }, services) =>
    listNodes(services.db, { ...readPageQuery(query), visibility: person().visibility }),
  'node-get': ({ params, person }, services) => mustFindNode(params.id, person().visibility, services),
  async 'node-state'({ params, query, person }, services) {
    const requested = new Date(query.at);
    const present = now(services.clock);
    if (requested > secondsLater(present, maxAheadSeconds))
      throw new ApiProblem('invalid_request', {
        detail: `The moment is in the future; the server's time is ${present.toISOString()}.`,
        errors: [{ path: '/query/at', message: 'must not be in the future' }],
      });
    // A moment slightly ahead counts as now.
    const at = requested < present ? requested : present;
    const cut = await readNewestCut(services.db);
    if (cut && at < cut)
      throw new ApiProblem(
        'evidence_cut',
        `Retention dropped evidence from before ${cut.toISOString()}; ask for a later moment.`,
      );
    const [pastNode] = await rebuildNodesAt(services.db, [{ id: params.id, at }]);
    // A tenant sees a machine only as it was while the tenant held it.
    if (!pastNode || !canSee(person().visibility, pastNode.tenant))
      throw new ApiProblem('node_not_found', 'No such node, or it did not exist at that moment.');
    return pastNode.state;
  },
  async 'node-timeline'({ params, query, person }, services) {
    await mustBeKnown(params.id, person().visibility, services);
    return readTimeline(query, person().visibility, services, { node_id: params.id });
  },
  async 'node-logs'({ params, query, person, request, reply }, services) {
    const { visibility } = person();
    await mustBeKnown(params.id, visibility, services);
    const { cursor, before: beforeCursor, limit, follow, ...filter } = query ?? {};
    let after = cursor === undefined ? undefined : parseLogCursor(cursor);
    const before = beforeCursor === undefined ? undefined : parseLogCursor(beforeCursor);
    if ((cursor !== undefined && !after) || (beforeCursor !== undefined && !before))
      throw new ApiProblem('invalid_cursor');
    if (follow) services.places.log_follows.hold(person(), reply);
    const isDisconnected = () => request.raw.destroyed;
    const read = () =>
      readLines(services.db, {
        ...filter,
        node_id: params.id,
        after,
        before,
        visibility,
        limit: limit ?? defaultLimit,
        isDisconnected,
      });
    // Only the first read searches the whole log; later reads continue where it ended.
    const endSearch = filter.q || filter.since ? services.places.log_searches.take(person()) : () => {};
    let page = await read().finally(endSearch);
    let next_cursor = page.next_cursor ?? cursor ?? null;
    const isWaiting = () => page.items.length === 0 && page.continue_at === null && !isDisconnected();
    for (let waits = 0; follow && isWaiting() && waits < maxFollowWaits; waits++) {
      await services.arrivals.waitForLines(params.id, followWaitMs);
      // Continue after the lines that the filter left out.
      after = next_cursor === null ? undefined : parseLogCursor(next_cursor);
      page = await read();
      next_cursor = page.next_cursor ?? next_cursor;
    }
    return { ...page, next_cursor };
  },
  async 'node-boot'({ params, query, person }, services) {
    const { visibility } = person();
    const node = await mustFindNode(params.id, visibility, services);
    const instance = query?.instance ?? node.node_instance_id;
    if (visibility.kind !== 'fleet' && instance !== node.node_instance_id)
      throw new ApiProblem('node_not_found', 'That instance is not visible to this tenant.');
    const stages = instance ? await readBootStages(services.db, node.node_id, instance, visibility) : [];
    const usual = await readUsualStages(services.db, node.pool, instance ?? '');
    const starts = computeStageStarts(stages);
    return {
      node_id: node.node_id,
      node_instance_id: instance,
      stages: stages.map((stage, index) => ({
        ...stage,
        starts_seconds: starts[index] ?? 0,
        usual_seconds: usual.get(stage.name) ?? null,
      })),
    };
  },
  async 'timeline-get'({ query, person }, services) {
    const hasId = (['node_id', 'node_instance_id', 'correlation_id', 'allocation_id', 'workflow_id'] as const).some(
      (id) => query?.[id] !== undefined,
    );
    if (!hasId)
      throw new ApiProblem(
        'invalid_request',
        'Name at least one of node_id, node_instance_id, correlation_id, allocation_id, workflow_id.',
      );
    return readTimeline(query, person().visibility, services);
  },
  'audit-list': ({ query, person }, services) => readTimeline(query, person().visibility, services, { audited: true }),
};
