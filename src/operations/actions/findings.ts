/**
 * Repairs or accepts a finding, with a reason. Each decision is one transaction; a dry run changes
 * nothing.
 */
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { expectedStatuses, type FindingWhat } from '../../lifecycle/findings/findings.ts';
import { findProvenGoneNodes, isSeenSince } from '../../store/history/proven-gone-nodes.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { type FindingRow, type FindingSettlement, findingRow, settleFinding } from '../../store/rows/findings.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { restateRow, restoreRow } from '../../store/transitions/restore-rows.ts';
import { retireIn } from '../release/node-retire.ts';
import { retireProvenGone } from '../release/proven-gone.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';

export interface FindingRequest {
  reason: string;
  dry_run?: boolean | undefined;
}

interface DecisionContext {
  tx: Transaction;
  services: OperationServices;
  finding: FindingRow;
  request: FindingRequest;
  caller: Caller;
  at: Date;
}

interface Decision {
  says(finding: FindingRow): string;
  /**
   * Throws if the decision is outdated. Returns the queued operation, if any. The finding is
   * settled next.
   */
  act(context: DecisionContext): Promise<WorkflowId | undefined>;
}

const differenceGoneError = () =>
  new ApiProblem('action_illegal', 'The difference is gone. The next run of the sweep closes the finding.');

/** The row that the finding is about. */
const rowOf = ({ finding: { allocation_id, subject }, request, caller }: DecisionContext) => ({
  table: allocation_id === null ? ('nodes' as const) : ('allocations' as const),
  id: subject,
  reason: request.reason,
  actor: caller.actor,
});

async function tearDownNode({ tx, services, finding, request, caller, at }: DecisionContext): Promise<WorkflowId> {
  const node = await lockNode(tx, finding.subject);
  const isExpected = expectedStatuses.some((status) => status === node?.status);
  if (!node || !isExpected || node.node_instance_id !== finding.node_instance_id) throw differenceGoneError();
  const cause = { by: 'retire' as const, reason: request.reason, actor: caller.actor };
  const workflow_id = await retireIn(tx, services, node, cause, at);
  if (!workflow_id) throw differenceGoneError();
  return workflow_id;
}

/**
 * Retires the node by the recorded proof. If the provider has shown the machine after the proof,
 * the machine is torn down again instead.
 */
async function retireByProof(context: DecisionContext): Promise<WorkflowId | undefined> {
  const { tx, services, finding, request, caller, at } = context;
  if (!(await lockNode(tx, finding.subject))) throw differenceGoneError();
  const [node] = await findProvenGoneNodes(tx, [finding.subject]);
  if (!node) throw differenceGoneError();
  if (isSeenSince(node)) return tearDownNode(context);
  const cause = { reason: request.reason, actor: caller.actor, workflow_id: null };
  if (!(await retireProvenGone(tx, services, { ...node, ...cause }, at))) throw differenceGoneError();
  return undefined;
}

const refuseRepair = (explanation: string): Decision => ({
  says: () => {
    throw new ApiProblem('action_illegal', explanation);
  },
  act: async () => undefined,
});

const poolChangeRequired = refuseRepair(
  'Only a change of the pool or its image repairs this. The finding closes when the cause is gone. Accept the finding if you know the cause.',
);

const repairs: Record<FindingWhat, Decision> = {
  machine_absent: {
    says: () => 'the node is torn down with proof and retired; an allocation on it fails by node-lost',
    act: tearDownNode,
  },
  row_differs: {
    says: ({ theirs }) => `the row is set to what its evidence says: ${JSON.stringify(theirs)}`,
    async act(context) {
      if (!(await restoreRow(context.tx, rowOf(context), context.at))) throw differenceGoneError();
      return undefined;
    },
  },
  proven_gone: {
    says: ({ theirs }) =>
      theirs.observed_state === undefined
        ? 'the node is retired by the proof on record'
        : 'the machine is torn down again, with proof, and the node is retired',
    act: retireByProof,
  },
  node_provisions: poolChangeRequired,
  pool_provisions: poolChangeRequired,
  boots_slower: poolChangeRequired,
  name_contested: refuseRepair(
    'Decide which machine is the right one: enrol the node again, retire it, or accept the finding.',
  ),
  join_token_expiring: refuseRepair(
    'Create another join token and restart the machines with it. The finding closes when no machine uses the old token.',
  ),
  token_expiring: refuseRepair(
    'Create another token with the same name, role and scope, and use it instead. The finding closes when the new token is used.',
  ),
};

const acceptAsIs: Decision = {
  says: () => 'the finding is not reported again while nothing changes',
  act: async () => undefined,
};

const acceptances: Record<FindingWhat, Decision> = {
  machine_absent: acceptAsIs,
  row_differs: {
    says: ({ ours }) => `the row stays as it is, and its values are recorded as evidence: ${JSON.stringify(ours)}`,
    async act(context) {
      if (!(await restateRow(context.tx, rowOf(context), context.at))) throw differenceGoneError();
      return undefined;
    },
  },
  proven_gone: acceptAsIs,
  node_provisions: acceptAsIs,
  pool_provisions: acceptAsIs,
  name_contested: acceptAsIs,
  join_token_expiring: acceptAsIs,
  token_expiring: acceptAsIs,
  boots_slower: {
    says: () => 'the current boot time counts as normal; only boots that become even slower are reported',
    act: async () => undefined,
  },
};

export interface FindingOutcome {
  finding: FindingRow;
  says: string;
  workflow_id?: WorkflowId | undefined;
}

function decide(
  services: OperationServices,
  id: string,
  decisions: Record<FindingWhat, Decision>,
  settlementOf: (finding: FindingRow) => Pick<FindingSettlement, 'status' | 'keep'>,
  request: FindingRequest,
  caller: Caller,
): Promise<FindingOutcome> {
  const at = now(services.clock);
  return services.db.transaction(async (tx) => {
    const finding = await findingRow(tx, id);
    if (!finding) throw new ApiProblem('finding_not_found');
    if (finding.status !== 'open')
      throw new ApiProblem('action_illegal', `The finding is ${finding.status}; only an open one can be decided on.`);
    const decision = decisions[finding.what];
    const says = decision.says(finding);
    if (request.dry_run) return { finding, says };
    const workflow_id = await decision.act({ tx, services, finding, request, caller, at });
    const settlement = { reason: request.reason, actor: caller.actor, ...settlementOf(finding) };
    const settled = await settleFinding(tx, finding.finding_id, settlement, at);
    if (!settled) throw new ApiProblem('action_illegal', 'Somebody else decided on the finding in the meantime.');
    return { finding: settled, says, workflow_id };
  });
}

export const repairFinding = (services: OperationServices, id: string, request: FindingRequest, caller: Caller) =>
  decide(services, id, repairs, () => ({ status: 'repaired' }), request, caller);

/**
 * An accepted finding stays until the difference is gone, so that it is not opened again. For
 * `row_differs` the acceptance itself removes the difference.
 */
export const acceptFinding = (services: OperationServices, id: string, request: FindingRequest, caller: Caller) =>
  decide(
    services,
    id,
    acceptances,
    ({ what }) => ({ status: 'accepted', keep: what !== 'row_differs' }),
    request,
    caller,
  );
