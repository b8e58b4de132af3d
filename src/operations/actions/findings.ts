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

interface Deciding {
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
   * Throws if the decision no longer fits. Returns the queued operation, if any. The finding is
   * settled next.
   */
  act(deciding: Deciding): Promise<WorkflowId | undefined>;
}

const agreesByNow = () =>
  new ApiProblem('action_illegal', 'The sides agree by now; the finding closes with the next pass.');

/** The row that the finding is about. */
const rowOf = ({ finding: { allocation_id, subject }, request, caller }: Deciding) => ({
  table: allocation_id === null ? ('nodes' as const) : ('allocations' as const),
  id: subject,
  reason: request.reason,
  actor: caller.actor,
});

async function takeDown({ tx, services, finding, request, caller, at }: Deciding): Promise<WorkflowId> {
  const node = await lockNode(tx, finding.subject);
  const isExpected = expectedStatuses.some((status) => status === node?.status);
  if (!node || !isExpected || node.node_instance_id !== finding.node_instance_id) throw agreesByNow();
  const cited = { by: 'retire' as const, reason: request.reason, actor: caller.actor };
  const workflow_id = await retireIn(tx, services, node, cited, at);
  if (!workflow_id) throw agreesByNow();
  return workflow_id;
}

/**
 * Retires the node by the recorded proof. A machine that its provider has shown since is torn down
 * again.
 */
async function retireByProof(deciding: Deciding): Promise<WorkflowId | undefined> {
  const { tx, services, finding, request, caller, at } = deciding;
  if (!(await lockNode(tx, finding.subject))) throw agreesByNow();
  const [node] = await provenGoneNodes(tx, [finding.subject]);
  if (!node) throw agreesByNow();
  if (isSeenSince(node)) return takeDown(deciding);
  const cited = { reason: request.reason, actor: caller.actor, workflow_id: null };
  if (!(await retireProvenGone(tx, services, { ...node, ...cited }, at))) throw agreesByNow();
  return undefined;
}

const notRepairable = (words: string): Decision => ({
  says: () => {
    throw new ApiProblem('action_illegal', words);
  },
  act: async () => undefined,
});

const notByItself = notRepairable(
  'Only a change of the pool or of what it is made from fixes this. The finding closes when it no longer holds; accept it if you know of it.',
);

const repairs: Record<FindingWhat, Decision> = {
  machine_absent: {
    says: () => 'the node is taken down with proof and retired; an allocation on it ends failed by node-lost',
    act: takeDown,
  },
  row_differs: {
    says: ({ theirs }) => `the row is set to what its evidence says: ${JSON.stringify(theirs)}`,
    async act(deciding) {
      if (!(await restoreRow(deciding.tx, rowOf(deciding), deciding.at))) throw agreesByNow();
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
  node_provisions: notByItself,
  pool_provisions: notByItself,
  boots_slower: notByItself,
  name_contested: notRepairable(
    'An operator decides which machine is right: let the node enrol again, retire it, or accept the finding.',
  ),
  join_token_expiring: notRepairable(
    'Make another join token and start the machines with it. The finding closes once none beats with the old one.',
  ),
  token_expiring: notRepairable(
    'Make another token of the same name, role and scope, and use it instead. The finding closes once the new one is used.',
  ),
};

const known: Decision = {
  says: () => 'it is not reported again while it stays as it is',
  act: async () => undefined,
};

const acceptances: Record<FindingWhat, Decision> = {
  machine_absent: known,
  row_differs: {
    says: ({ ours }) => `the row holds as it stands, and becomes its evidence: ${JSON.stringify(ours)}`,
    async act(deciding) {
      if (!(await restateRow(deciding.tx, rowOf(deciding), deciding.at))) throw agreesByNow();
      return undefined;
    },
  },
  proven_gone: known,
  node_provisions: known,
  pool_provisions: known,
  name_contested: known,
  join_token_expiring: known,
  token_expiring: known,
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
  settledAs: (finding: FindingRow) => Pick<Settled, 'status' | 'keep'>,
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
    const settled = { reason: request.reason, actor: caller.actor, ...settledAs(finding) };
    const closed = await settleFinding(tx, finding.finding_id, settled, at);
    if (!closed) throw new ApiProblem('action_illegal', 'Somebody else has decided on it meanwhile.');
    return { finding: closed, says, workflow_id };
  });
}

export const repairFinding = (services: OperationServices, id: string, request: FindingRequest, caller: Caller) =>
  decide(services, id, repairs, () => ({ status: 'repaired' }), request, caller);

/** An accepted finding stays on record until the sides agree, so that it is not opened again. */
export const acceptFinding = (services: OperationServices, id: string, request: FindingRequest, caller: Caller) =>
  decide(
    services,
    id,
    acceptances,
    ({ what }) => ({ status: 'accepted', keep: what !== 'row_differs' }),
    request,
    caller,
  );
