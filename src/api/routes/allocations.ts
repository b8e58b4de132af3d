/** Handles allocations and operations: create, read, release, retry and cancel. */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { OperationName } from '../../contract/routes.ts';
import { offeredAllocationActions } from '../../lifecycle/actions/allocation-actions.ts';
import { canSee, tenantOnly, type Visibility } from '../../lifecycle/visibility.ts';
import type { Prediction } from '../../operations/actions/action.ts';
import { readAllocationSubject } from '../../operations/actions/action-subjects.ts';
import { actOnAllocation } from '../../operations/actions/allocation-actions.ts';
import { requestRelease } from '../../operations/release/release-requests.ts';
import { requestAllocation, requestCancel, requestOperationRetry, requestRetry } from '../../operations/requests.ts';
import type { AllocationOperation, Caller } from '../../operations/runtime/caller.ts';
import { listOperations, readOperation } from '../../store/operations/operations.ts';
import { listAllocations, readAllocation } from '../../store/rows/allocations.ts';
import { actorOf, type Person } from '../http/callers.ts';
import { readPageQuery } from '../http/paging.ts';
import { notFoundProblem, operationNotFoundProblem } from '../http/replies/gone.ts';
import type { ApiServices, Call, Handlers } from '../services.ts';

export const callerOf = (call: Pick<Call<OperationName>, 'person' | 'correlation_id'>, reason?: string): Caller => ({
  actor: actorOf(call.person()),
  visibility: call.person().visibility,
  correlation_id: call.correlation_id,
  ...(reason && { reason }),
});

async function mustFindAllocation(id: string, visibility: Visibility, services: ApiServices) {
  const allocation = await readAllocation(services.db, id, visibility, now(services.clock));
  if (!allocation) throw await notFoundProblem('allocation', id, visibility, services);
  return allocation;
}

async function mustFindOperation(id: string, visibility: Visibility, services: ApiServices) {
  const operation = await readOperation(services.db, id, visibility, now(services.clock));
  if (!operation) throw operationNotFoundProblem(id, services);
  return operation;
}

/** A fleet-wide caller may filter by any tenant; a tenant may only filter by itself. */
function narrowToTenant(visibility: Visibility, requestedTenant: string | undefined): Visibility {
  if (requestedTenant === undefined) return visibility;
  if (!canSee(visibility, requestedTenant)) throw new ApiProblem('scope_insufficient');
  return tenantOnly(requestedTenant);
}

/** The predicted effect of an action or its dry run, as sent to the caller. */
export const predictionWire = <Status extends string>(prediction: Prediction<Status>) => ({
  status: prediction.status,
  deadline_at: prediction.deadline_at?.toISOString() ?? null,
  says: prediction.says,
  ...(prediction.fingerprint && { fingerprint: prediction.fingerprint }),
});

/** The operation that an action queued, if any. */
export const readQueuedOperation = async (
  { workflow_id }: { workflow_id?: string | undefined },
  { visibility }: Person,
  services: ApiServices,
) => (workflow_id ? mustFindOperation(workflow_id, visibility, services) : null);

/** The reply to a create, release or retry: the allocation and the operation that works on it. */
const allocationReply = async (ids: AllocationOperation, { visibility }: Person, services: ApiServices) => ({
  allocation: await mustFindAllocation(ids.allocation_id, visibility, services),
  operation: await mustFindOperation(ids.workflow_id, visibility, services),
});

type AllocationRoutes =
  | 'allocation-create'
  | 'allocation-list'
  | 'allocation-get'
  | 'allocation-release'
  | 'allocation-retry'
  | 'allocation-actions'
  | 'allocation-act'
  | 'operation-list'
  | 'operation-get'
  | 'operation-cancel'
  | 'operation-retry';

export const allocationHandlers: Pick<Handlers, AllocationRoutes> = {
  'allocation-create': async (call, services) =>
    allocationReply(await requestAllocation(services, call.body, callerOf(call)), call.person(), services),
  async 'allocation-list'({ query, person }, services) {
    const visibility = narrowToTenant(person().visibility, query?.tenant);
    const { tenant: _, ...filter } = readPageQuery(query);
    return listAllocations(services.db, { ...filter, visibility }, now(services.clock));
  },
  'allocation-get': ({ params, person }, services) => mustFindAllocation(params.id, person().visibility, services),
  'allocation-release': async (call, services) =>
    allocationReply(
      await requestRelease(services, call.params.id, callerOf(call, call.body?.reason)),
      call.person(),
      services,
    ),
  'allocation-retry': async (call, services) =>
    allocationReply(
      await requestRetry(services, call.params.id, callerOf(call, call.body?.reason)),
      call.person(),
      services,
    ),
  async 'allocation-actions'({ params, person }, services) {
    const allocation = await mustFindAllocation(params.id, person().visibility, services);
    const subject = await readAllocationSubject(services.db, allocation);
    return { items: offeredAllocationActions(subject, person()) };
  },
  async 'allocation-act'(call, services) {
    const { id, action } = call.params;
    const outcome = await actOnAllocation(services, id, action, call.body, callerOf(call, call.body.reason));
    return {
      allocation: await mustFindAllocation(id, call.person().visibility, services),
      operation: await readQueuedOperation(outcome, call.person(), services),
      dry_run: call.body.dry_run ?? false,
      predicts: predictionWire(outcome),
    };
  },
  'operation-list': async ({ query, person }, services) =>
    listOperations(services.db, { ...readPageQuery(query), visibility: person().visibility }, now(services.clock)),
  'operation-get': ({ params, person }, services) => mustFindOperation(params.id, person().visibility, services),
  async 'operation-cancel'(call, services) {
    await requestCancel(services, call.params.id, callerOf(call, call.body?.reason));
    return mustFindOperation(call.params.id, call.person().visibility, services);
  },
  async 'operation-retry'(call, services) {
    await requestOperationRetry(services, call.params.id, callerOf(call, call.body?.reason));
    return mustFindOperation(call.params.id, call.person().visibility, services);
  },
};
