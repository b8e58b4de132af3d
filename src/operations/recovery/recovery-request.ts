/**
 * Requests for a bulk recovery, with a dry run that lists the targets and why others are not
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
import { matchingTargets } from '../../store/operations/recoveries.ts';
import type { Queryable, Transaction } from '../../store/pg/database.ts';
import { readNodes } from '../../store/rows/nodes.ts';
import { currentDocuments, currentPool } from '../../store/rows/pools.ts';
import { nodeSubjects } from '../actions/action-subjects.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { PlanStep } from '../runtime/stage.ts';
import { fleetRecoverKind } from './fleet-recover.ts';
import type { RecoveryOrder } from './recovery-round.ts';

type Eligibility = Pick<Recovery, 'matched' | 'eligible' | 'not_eligible' | 'first'>;

/** How many targets a dry run names. */
const maxNamed = 10;
/** How many nodes one round of statements reads. */
const atOnce = 1_000;

async function findReasons(
  db: Queryable,
  action: NodeBulkAction,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const why_nots = new Map<string, string>();
  for (let from = 0; from < ids.length; from += atOnce) {
    const nodes = await readNodes(db, ids.slice(from, from + atOnce), wholeFleet);
    const pools = await currentDocuments(
      db,
      nodes.map(({ pool }) => pool),
    );
    for (const [index, subject] of (await nodeSubjects(db, nodes)).entries()) {
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
  // A failed release may always be retried, and the filter chose only those.
  const why_nots = isAboutAllocations(action) ? new Map<string, string>() : await findReasons(db, action, ids);
  const eligible = ids.filter((id) => !why_nots.has(id));
  const others = Map.groupBy(
    ids.filter((id) => why_nots.has(id)),
    (id) => why_nots.get(id) ?? '',
  );
  return {
    matched: ids.length,
    eligible: eligible.length,
    not_eligible: [...others]
      .map(([why_not, all]) => ({ why_not, count: all.length, first: all.slice(0, maxNamed) }))
      .sort((a, b) => b.count - a.count),
    first: eligible.slice(0, maxNamed),
  };
}

function bulkActionOf(action: string): BulkActionName {
  if (isBulkAction(action)) return action;
  throw new ApiProblem(
    'action_not_in_bulk',
    `${action} is done to one at a time; in bulk there are ${bulkActionNames.join(', ')}.`,
  );
}

const wrongFilter = (path: string, detail: string, message: string) =>
  new ApiProblem('invalid_request', { detail, errors: [{ path: `/body/filter${path}`, message }] });

function checkFilter(action: BulkActionName, filter: RecoveryFilter): void {
  const { from } = bulkAction(action);
  if (filter.status !== undefined && !from.some((status) => status === filter.status))
    throw wrongFilter('/status', `${action} cannot begin in ${filter.status}.`, `must be one of ${from.join(', ')}`);
  const names = filter.pool ?? filter.zone ?? Object.keys(filter.labels ?? {})[0];
  if (!isAboutAllocations(action) && names === undefined)
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
    const known = await eligibilityOf(tx, action, await matchingTargets(tx, action, filter, at));
    const isNeeded = !dry_run && known.eligible > 0;
    return { ...known, workflow_id: isNeeded ? await recoverIn(tx, services, order, known, caller, at) : null };
  });
}

/** The canary and the rest have no deadline: each target's own deadline ends it. */
const fleetRecoverPlan = ({ per_minute, canary }: RecoveryOrder, eligible: number): PlanStep[] => [
  { name: 'select', label: 'Choosing what to recover', usual_seconds: 0.5, within_seconds: 300 },
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
      summary: `a recovery that ${bulkAction(order.action).does} was asked for ${eligible}${matched > eligible ? ` of ${matched}` : ''}: ${order.reason}`,
      data: { ...order, matched, eligible },
      actor,
      correlation_id,
      workflow_id,
    },
  ]);
  return workflow_id;
}
