/** Asks for a bulk recovery: refused where it would mean nothing or everything, told beforehand whom it would touch. */
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { RecoveryFilter, RecoveryRequest } from '../../contract/supervision/recovery.ts';
import {
  type BulkActionName,
  bulkAction,
  bulkActionNames,
  isAboutAllocations,
  isBulkAction,
  recoveryDefaults,
} from '../../lifecycle/actions/recovery.ts';
import { matchingTargets } from '../../store/operations/recoveries.ts';
import { currentPool } from '../../store/rows/pools.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { recoverIn } from './fleet-recover.ts';
import { type Eligibility, eligibilityOf } from './recovery-eligibility.ts';

function bulkActionOf(action: string): BulkActionName {
  if (isBulkAction(action)) return action;
  throw new ApiProblem(
    'action_not_in_bulk',
    `${action} is done to one at a time; in bulk there are ${bulkActionNames.join(', ')}.`,
  );
}

const wrongFilter = (path: string, detail: string, message: string) =>
  new ApiProblem('invalid_request', { detail, errors: [{ path: `/body/filter${path}`, message }] });

function mustMakeSense(action: BulkActionName, filter: RecoveryFilter): void {
  const { from } = bulkAction(action);
  if (filter.status !== undefined && !from.some((status) => status === filter.status))
    throw wrongFilter('/status', `${action} cannot begin in ${filter.status}.`, `must be one of ${from.join(', ')}`);
  const names = filter.pool ?? filter.zone ?? Object.keys(filter.labels ?? {})[0];
  if (!isAboutAllocations(action) && names === undefined)
    throw wrongFilter(
      '',
      `Say of which machines: ${action} of every machine of the fleet is hardly meant.`,
      'must name pool, zone or labels',
    );
}

export type AskedRecovery = Eligibility & { workflow_id: WorkflowId | null };

export async function requestRecovery(
  services: OperationServices,
  asked: RecoveryRequest,
  caller: Caller,
): Promise<AskedRecovery> {
  const { filter, reason, dry_run } = asked;
  const action = bulkActionOf(asked.action);
  mustMakeSense(action, filter);
  const at = now(services.clock);
  if (filter.pool !== undefined && !(await currentPool(services.db, filter.pool)))
    throw new ApiProblem('pool_not_found', `There is no pool named ${filter.pool}.`);
  const { canary, per_minute, stop_after_failures } = { ...recoveryDefaults, ...asked };
  const order = { action, filter, reason, canary, per_minute, stop_after_failures };
  return services.db.transaction(async (tx) => {
    const known = await eligibilityOf(tx, action, await matchingTargets(tx, action, filter, at));
    const isNeeded = !dry_run && known.eligible > 0;
    return { ...known, workflow_id: isNeeded ? await recoverIn(tx, services, order, known, caller, at) : null };
  });
}
