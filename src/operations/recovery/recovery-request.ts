/**
 * Requests for a bulk recovery. A dry run lists the targets, and why other machines are not
 * eligible.
 */
import { now } from '../../base/clock.ts';
import { newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Recovery, RecoveryFilter, RecoveryRequest } from '../../contract/supervision/recovery.ts';
import {
  type BulkActionName,
  bulkAction,
  bulkActionNames,
  isAboutAllocations,
  isBulkAction,
  type NodeBulkAction,
  recoveryDefaults,
  whyNotInBulk,
} from '../../lifecycle/actions/recovery.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import { listMatchingTargets } from '../../store/operations/recoveries.ts';
import type { Queryable, Transaction } from '../../store/pg/database.ts';
import { readNodes } from '../../store/rows/nodes.ts';
import { currentPool, readCurrentDocuments } from '../../store/rows/pools.ts';
import { readNodeSubjects } from '../actions/action-subjects.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { PlanStep } from '../runtime/stage.ts';
import { fleetRecoverKind } from './fleet-recover.ts';
import type { RecoveryOrder } from './recovery-round.ts';

type Eligibility = Pick<Recovery, 'matched' | 'eligible' | 'not_eligible' | 'first'>;

/** How many targets a dry run names. */
const maxNamed = 10;
/** How many nodes are read together. */
const nodesPerRead = 1_000;

async function findReasons(
  db: Queryable,
  action: NodeBulkAction,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const why_nots = new Map<string, string>();
  for (let from = 0; from < ids.length; from += nodesPerRead) {
    const nodes = await readNodes(db, ids.slice(from, from + nodesPerRead), wholeFleet);
    const pools = await readCurrentDocuments(
      db,
      nodes.map(({ pool }) => pool),
    );
    for (const [index, subject] of (await readNodeSubjects(db, nodes)).entries()) {
      const node = nodes[index];
      const document = node && pools.get(node.pool);
      const why_not = whyNotInBulk(action, subject, document ? { paused: document.paused ?? false } : null);
      if (node && why_not !== null) why_nots.set(node.node_id, why_not);
    }
  }
  return why_nots;
}

/** Keeps the order of `ids`, which is the order of the recovery. */
async function eligibilityOf(db: Queryable, action: BulkActionName, ids: readonly string[]): Promise<Eligibility> {
  // For allocations the filter selects only failed releases, which may always be retried.
  const why_nots = isAboutAllocations(action) ? new Map<string, string>() : await findReasons(db, action, ids);
  const eligible = ids.filter((id) => !why_nots.has(id));
  const idsByReason = Map.groupBy(
    ids.filter((id) => why_nots.has(id)),
    (id) => why_nots.get(id) ?? '',
  );
  return {
    matched: ids.length,
    eligible: eligible.length,
    not_eligible: [...idsByReason]
      .map(([why_not, group]) => ({ why_not, count: group.length, first: group.slice(0, maxNamed) }))
      .sort((a, b) => b.count - a.count),
    first: eligible.slice(0, maxNamed),
  };
}

function bulkActionOf(action: string): BulkActionName {
  if (isBulkAction(action)) return action;
  throw new ApiProblem(
    'action_not_in_bulk',
    `${action} is not a bulk action. Bulk actions are ${bulkActionNames.join(', ')}.`,
  );
}

const wrongFilter = (path: string, detail: string, message: string) =>
  new ApiProblem('invalid_request', { detail, errors: [{ path: `/body/filter${path}`, message }] });

function checkFilter(action: BulkActionName, filter: RecoveryFilter): void {
  const { from } = bulkAction(action);
  if (filter.status !== undefined && !from.some((status) => status === filter.status))
    throw wrongFilter('/status', `${action} cannot begin in ${filter.status}.`, `must be one of ${from.join(', ')}`);
  const narrowedBy = filter.pool ?? filter.zone ?? Object.keys(filter.labels ?? {})[0];
  if (!isAboutAllocations(action) && narrowedBy === undefined)
    throw wrongFilter(
      '',
      `Name the machines: ${action} of the whole fleet is refused.`,
      'must name pool, zone or labels',
    );
}

export type RecoveryAnswer = Eligibility & { workflow_id: WorkflowId | null };

export async function requestRecovery(
  services: OperationServices,
  request: RecoveryRequest,
  caller: Caller,
): Promise<RecoveryAnswer> {
  const { filter, reason, dry_run } = request;
  const action = bulkActionOf(request.action);
  checkFilter(action, filter);
  const at = now(services.clock);
  if (filter.pool !== undefined && !(await currentPool(services.db, filter.pool)))
    throw new ApiProblem('pool_not_found', `There is no pool named ${filter.pool}.`);
  const { canary, per_minute, stop_after_failures } = { ...recoveryDefaults, ...request };
  const order = { action, filter, reason, canary, per_minute, stop_after_failures };
  return services.db.transaction(async (tx) => {
    const eligibility = await eligibilityOf(tx, action, await listMatchingTargets(tx, action, filter, at));
    const shouldStart = !dry_run && eligibility.eligible > 0;
    return {
      ...eligibility,
      workflow_id: shouldStart ? await recoverIn(tx, services, order, eligibility, caller, at) : null,
    };
  });
}

/** `canary` and `rest` have no time limit, because the deadline of each target ends the wait. */
const fleetRecoverPlan = ({ per_minute, canary }: RecoveryOrder, eligible: number): PlanStep[] => [
  { name: 'select', label: 'Choosing targets', usual_seconds: 0.5, within_seconds: 300 },
  { name: 'canary', label: 'Trying the canary', usual_seconds: null, within_seconds: null },
  {
    name: 'rest',
    label: 'Recovering the rest',
    usual_seconds: (Math.max(0, eligible - canary) * 60) / per_minute,
    within_seconds: null,
  },
  { name: 'conclude', label: 'Counting results', usual_seconds: 0.5, within_seconds: 300 },
];

/** Queues the operation. All its actions carry the same correlation id. */
async function recoverIn(
  tx: Transaction,
  services: OperationServices,
  order: RecoveryOrder,
  { matched, eligible }: Pick<Eligibility, 'matched' | 'eligible'>,
  caller: Caller,
  at: Date,
): Promise<WorkflowId> {
  const workflow_id = newWorkflowId(services.clock);
  const { actor, correlation_id } = caller;
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: fleetRecoverKind,
      revision: 1,
      tenant: null,
      correlation_id,
      actor,
      params: { ...order },
      steps: fleetRecoverPlan(order, eligible),
    },
    at,
  );
  await recordEvidence(tx, [
    {
      at,
      layer: 'operator',
      kind: 'recovery.asked',
      summary: `a recovery that ${bulkAction(order.action).does} was requested for ${eligible}${matched > eligible ? ` of ${matched}` : ''}: ${order.reason}`,
      data: { ...order, matched, eligible },
      actor,
      correlation_id,
      workflow_id,
    },
  ]);
  return workflow_id;
}
