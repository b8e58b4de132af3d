/**
 * Requests to verify, adopt or delete a residue entry, by people and by the `orphans` sweep. Each
 * is one transaction.
 */
import { now } from '../../base/clock.ts';
import { newCorrelationId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { readOperationRow } from '../../store/operations/operations.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { residueRow, setResidueOperation, settleResidue } from '../../store/rows/residue.ts';
import { type ResidueWithMachine, readResidueWithMachine } from '../../store/supervision/orphans.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { residueDeleteKind, residueDeletePlan } from './residue-delete.ts';
import { residueVerifyKind, residueVerifyPlan } from './residue-verify.ts';

export interface ResidueResult {
  residue_id: string;
  /** The queued operation; null for an adoption or a dry run. */
  workflow_id: WorkflowId | null;
  /** The effect, in words. */
  says: string;
}

/** With `dry_run`, a request only predicts its effect. */
export interface ResidueCaller extends Caller {
  dry_run?: boolean | undefined;
}

/**
 * Locks the entry and requires that it is open. `runningKind` is the kind of the operation that
 * works on the entry, if any.
 */
async function requireOpen(
  tx: Transaction,
  id: string,
): Promise<{ row: ResidueWithMachine; runningKind: string | null }> {
  if (!(await residueRow(tx, id, 'for update'))) throw new ApiProblem('residue_not_found');
  const row = await readResidueWithMachine(tx, id);
  if (!row) throw new ApiProblem('residue_not_found');
  if (row.status !== 'open')
    throw new ApiProblem('action_illegal', `The entry is ${row.status} since ${row.settled_at?.toISOString()}.`);
  const running = row.busy && row.workflow_id ? await readOperationRow(tx, row.workflow_id) : undefined;
  return { row, runningKind: running?.kind ?? null };
}

const busyProblem = (kind: string) =>
  new ApiProblem(
    'action_illegal',
    `The operation ${kind} works on the entry. Wait until it has ended, then try again.`,
  );

async function queueOn(
  tx: Transaction,
  services: OperationServices,
  row: ResidueWithMachine,
  operation: Pick<Parameters<typeof queueOperation>[1], 'kind' | 'steps'>,
  says: string,
  caller: ResidueCaller,
): Promise<ResidueResult> {
  if (caller.dry_run) return { residue_id: row.residue_id, workflow_id: null, says };
  const workflow_id = newWorkflowId(services.clock);
  await setResidueOperation(tx, row.residue_id, workflow_id);
  await queueOperation(
    tx,
    {
      ...operation,
      workflow_id,
      revision: 1,
      // A machine that was never a node has no row to refer to.
      node_id: row.node_status === null ? null : row.node_id,
      node_instance_id: row.node_instance_id,
      tenant: null,
      correlation_id: caller.correlation_id,
      actor: caller.actor,
      params: { residue_id: row.residue_id, reason: caller.reason ?? null },
    },
    now(services.clock),
  );
  return { residue_id: row.residue_id, workflow_id, says };
}

/** A repeated request returns the operation that runs already. */
const runningResult = ({ residue_id, workflow_id }: ResidueWithMachine): ResidueResult => ({
  residue_id,
  workflow_id,
  says: `operation ${workflow_id} does this already`,
});

const describe = ({ kind, resource, host }: ResidueWithMachine) =>
  `${kind} ${resource}${host ? ` on host ${host}` : ''}`;

/** A person takes the resource over, which closes the entry. */
export const adoptResidue = (services: OperationServices, id: string, caller: ResidueCaller): Promise<ResidueResult> =>
  services.db.transaction(async (tx) => {
    const { row, runningKind } = await requireOpen(tx, id);
    if (runningKind) throw busyProblem(runningKind);
    const says = `${caller.actor?.name ?? 'somebody'} takes over ${describe(row)}, which then no longer counts as residue`;
    const result = { residue_id: row.residue_id, workflow_id: null, says };
    if (caller.dry_run) return result;
    const settlement = { status: 'adopted' as const, ...(caller.reason && { reason: caller.reason }) };
    const source = { layer: 'operator', actor: caller.actor } as const;
    await settleResidue(tx, { residue_id: row.residue_id }, settlement, source, now(services.clock));
    return result;
  });

/** Queues a verification in the caller's transaction, or returns the one that runs already. */
export async function verifyIn(
  tx: Transaction,
  services: OperationServices,
  id: string,
  caller: ResidueCaller,
): Promise<ResidueResult> {
  const { row, runningKind } = await requireOpen(tx, id);
  if (runningKind === residueVerifyKind) return runningResult(row);
  if (runningKind) throw busyProblem(runningKind);
  const says = `the driver ${row.driver} is asked whether ${describe(row)} is still there; with a proof that it is gone the entry is closed`;
  return queueOn(tx, services, row, { kind: residueVerifyKind, steps: residueVerifyPlan }, says, caller);
}

export const requestResidueVerify = (
  services: OperationServices,
  id: string,
  caller: ResidueCaller,
): Promise<ResidueResult> => services.db.transaction((tx) => verifyIn(tx, services, id, caller));

/** Returns why the entry may not be deleted, or null if it may. */
function deletionRefusal(row: ResidueWithMachine, services: OperationServices): string | null {
  if (!services.drivers.has(row.driver))
    return `This server has no driver ${row.driver}. Remove the resource by hand, then adopt the entry.`;
  if (!row.node_instance_id)
    return 'The entry names no instance of ours, so Slipway may not destroy the resource. Remove it by hand, then adopt the entry.';
  if (row.present_instance_id && !services.drivers.get(row.driver)?.launches)
    return 'Slipway did not launch this machine, so it may not destroy it. Retire its node, or adopt the entry.';
  if (row.present && row.node_status === 'cleaning')
    return `Node ${row.node_id} is being torn down, and this resource with it. The entry closes with the proof. \`slipway explain ${row.node_id}\` shows the progress. To delete the entry instead, quarantine the node, which stops its teardown.`;
  if (row.present && row.node_status !== 'quarantined')
    return `This resource belongs to node ${row.node_id}, which is ${row.node_status}. Quarantine the node first: only resources of a quarantined or retired node can be deleted.`;
  return null;
}

export const requestResidueDelete = (
  services: OperationServices,
  id: string,
  caller: ResidueCaller,
): Promise<ResidueResult> =>
  services.db.transaction(async (tx) => {
    const { row, runningKind } = await requireOpen(tx, id);
    if (runningKind === residueDeleteKind) return runningResult(row);
    if (runningKind) throw busyProblem(runningKind);
    const why_not = deletionRefusal(row, services);
    if (why_not) throw new ApiProblem('action_illegal', why_not);
    const says = `${describe(row)} is destroyed by the driver ${row.driver} and proven gone; this cannot be undone`;
    return queueOn(tx, services, row, { kind: residueDeleteKind, steps: residueDeletePlan }, says, caller);
  });

/** The caller for requests by a sweep. */
export const ruleCaller = (reason: string): Caller => ({
  actor: null,
  visibility: wholeFleet,
  correlation_id: newCorrelationId(),
  reason,
});
