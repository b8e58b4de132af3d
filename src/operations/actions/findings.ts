/**
 * Repairs or accepts a finding, with a reason. Each decision is one transaction; a dry run changes
 * nothing.
 */
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { expectedStatuses, type FindingWhat } from '../../lifecycle/findings/findings.ts';
import { isSeenSince, provenGoneNodes } from '../../store/history/proven-gone-nodes.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { type FindingRow, findingRow, type Settled, settleFinding } from '../../store/rows/findings.ts';
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

const differenceGone = () =>
  new ApiProblem('action_illegal', 'The difference is gone. The finding closes with the next pass.');

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
  if (!node || !isExpected || node.node_instance_id !== finding.node_instance_id) throw differenceGone();
  const cause = { by: 'retire' as const, reason: request.reason, actor: caller.actor };
  const workflow_id = await retireIn(tx, services, node, cause, at);
  if (!workflow_id) throw differenceGone();
  return workflow_id;
}

/**
 * Retires the node by the recorded proof. If the provider has shown the machine after the proof,
 * the machine is torn down again instead.
 */
async function retireByProof(context: DecisionContext): Promise<WorkflowId | undefined> {
  const { tx, services, finding, request, caller, at } = context;
  if (!(await lockNode(tx, finding.subject))) throw differenceGone();
  const [node] = await provenGoneNodes(tx, [finding.subject]);
  if (!node) throw differenceGone();
  if (isSeenSince(node)) return tearDownNode(context);
  const cause = { reason: request.reason, actor: caller.actor, workflow_id: null };
  if (!(await retireProvenGone(tx, services, { ...node, ...cause }, at))) throw differenceGone();
  return undefined;
}

const notRepairable = (explanation: string): Decision => ({
  says: () => {
    throw new ApiProblem('action_illegal', explanation);
  },
  act: async () => undefined,
});

const notAutomatically = notRepairable(
  'Only a change of the pool or its image fixes this. The finding closes when the cause is gone. Accept it if it is known.',
);

const repairs: Record<FindingWhat, Decision> = {
  machine_absent: {
    says: () => 'the node is taken down with proof and retired; an allocation on it ends failed by node-lost',
    act: tearDownNode,
  },
  row_differs: {
    says: ({ theirs }) => `the row is set to what its evidence says: ${JSON.stringify(theirs)}`,
    async act(context) {
      if (!(await restoreRow(context.tx, rowOf(context), context.at))) throw differenceGone();
      return undefined;
    },
  },
  proven_gone: {
    says: ({ theirs }) =>
      theirs.observed_state === undefined
        ? 'the node is retired by the proof on record'
        : 'the machine is taken down again, with proof, and the node is retired',
    act: retireByProof,
  },
  node_provisions: notAutomatically,
  pool_provisions: notAutomatically,
  boots_slower: notAutomatically,
  name_contested: notRepairable(
    'Decide which machine is the right one: enrol the node again, retire it, or accept the finding.',
  ),
  join_token_expiring: notRepairable(
    'Create another join token and restart the machines with it. The finding closes when no machine uses the old token.',
  ),
  token_expiring: notRepairable(
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
    says: ({ ours }) => `the row holds as it stands, and becomes its evidence: ${JSON.stringify(ours)}`,
    async act(context) {
      if (!(await restateRow(context.tx, rowOf(context), context.at))) throw differenceGone();
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
    says: () => 'this pace counts as normal; only boots that get slower still are reported',
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
  settlementOf: (finding: FindingRow) => Pick<Settled, 'status' | 'keep'>,
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
    const closed = await settleFinding(tx, finding.finding_id, settlement, at);
    if (!closed) throw new ApiProblem('action_illegal', 'Someone else has decided on the finding meanwhile.');
    return { finding: closed, says, workflow_id };
  });
}

export const repairFinding = (services: OperationServices, id: string, request: FindingRequest, caller: Caller) =>
  decide(services, id, repairs, () => ({ status: 'repaired' }), request, caller);

/** An accepted finding stays until the difference is gone, so that it is not opened again. */
export const acceptFinding = (services: OperationServices, id: string, request: FindingRequest, caller: Caller) =>
  decide(
    services,
    id,
    acceptances,
    ({ what }) => ({ status: 'accepted', keep: what !== 'row_differs' }),
    request,
    caller,
  );
