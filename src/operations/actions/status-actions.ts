/** Actions that change a node's status: `drain`, `undrain`, `quarantine` and `reactivate`. */
import { newWorkflowId } from '../../base/ids.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import type { NodeStatus, Occupancy } from '../../lifecycle/model/states.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { listOpenTeardowns } from '../../store/operations/open-operations.ts';
import { markCancelling } from '../../store/operations/operations.ts';
import { type NewOperation, queueOperation } from '../../store/operations/queue-operation.ts';
import type { NodeChanges } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { reactivation } from '../provision/node-reactivate.ts';
import { type Action, type ActionContext, changedError, deadlineAfterMove, reasonAndActor } from './action.ts';

interface Move {
  to: NodeStatus;
  by: Cause;
  says(context: ActionContext): string;
  set?(context: ActionContext): NodeChanges;
  /** The operation to queue after the change. */
  next_operation?: Pick<NewOperation, 'kind' | 'revision' | 'tenant' | 'params' | 'steps'>;
  /** Further changes in the same transaction. */
  afterMove?(context: ActionContext): Promise<void>;
}

export const moveTo = ({ to, by, says, set, afterMove, next_operation }: Move): Action => ({
  predict: (context) => ({ status: to, deadline_at: deadlineAfterMove(to, context), says: says(context) }),
  async act(context) {
    const { tx, services, node, at } = context;
    const { actor, correlation_id } = reasonAndActor(context);
    const operation = next_operation && { workflow_id: newWorkflowId(services.clock), correlation_id };
    const move = {
      node_id: node.node_id,
      from: [node.status],
      to,
      by,
      ...reasonAndActor(context),
      ...operation,
      set: { ...set?.(context), ...operation },
    };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw changedError();
    await afterMove?.(context);
    const { node_id, node_instance_id } = node;
    if (next_operation && operation)
      await queueOperation(tx, { ...next_operation, ...operation, actor, node_id, node_instance_id }, at);
    return operation?.workflow_id;
  },
});

const drainEffect = { hold: 'quarantined', retire: 'torn down for good' } as const;

export const drain = moveTo({
  to: 'draining',
  by: 'drain',
  says: ({ request, apiNode }) =>
    `it takes no new work; ${apiNode.occupancy === 'free' ? 'it is empty, so' : 'once it is empty'} it is ${drainEffect[request.drain_then ?? 'hold']}`,
  set: ({ request }) => ({ drain_then: request.drain_then ?? 'hold' }),
});

export const undrain = moveTo({ to: 'ready', by: 'undrain', says: () => 'it takes work again' });

/**
 * The effect of a quarantine by occupancy. `ifReused`: a release keeps the machine. `ifTornDown`: a
 * release tears it down.
 */
const quarantineEffect: Record<Occupancy, { ifReused: string; ifTornDown: string }> = {
  free: {
    ifReused: 'it is taken out of service unchanged, until you reactivate it or choose another action',
    ifTornDown: 'it is taken out of service unchanged, until you reactivate it or choose another action',
  },
  reserved: {
    ifReused:
      'it is quarantined, and the allocation that waits for it fails. Once that allocation is released, you can reactivate or retire the machine',
    ifTornDown:
      'it is quarantined, and the allocation that waits for it fails. Do not release that allocation while you inspect the machine: in this pool a release tears it down',
  },
  occupied: {
    ifReused:
      'it is taken out of service unchanged; its allocation stays on it, and it gets no tasks. Reactivate it to serve that allocation again. To retire it, release the allocation first; the machine stays quarantined after it is proven clean',
    ifTornDown:
      'it is taken out of service unchanged; its allocation stays on it, and it gets no tasks. Reactivate it to serve that allocation again. Do not release the allocation while you inspect the machine: in this pool a release tears it down',
  },
  cleanup: {
    ifReused:
      'it is quarantined; the release of its allocation is still retried, and the machine stays quarantined after it is proven clean',
    ifTornDown:
      'it is quarantined; the release of its allocation is still retried, and in this pool that tears the machine down',
  },
};

export const quarantine = moveTo({
  to: 'quarantined',
  by: 'quarantine',
  says: ({ apiNode, pool }) => quarantineEffect[apiNode.occupancy][reusesNodes(pool) ? 'ifReused' : 'ifTornDown'],
  // Cancel teardowns, which would otherwise continue on the quarantined machine.
  async afterMove({ tx, services, node, caller, at }) {
    for (const { workflow_id, attempt } of await listOpenTeardowns(tx, node.node_id)) {
      await markCancelling(tx, workflow_id, at, caller.actor);
      await services.cancelRun(workflow_id, attempt);
    }
  },
});

export const reactivate = moveTo({
  to: 'starting',
  by: 'reactivate',
  says: ({ apiNode: { occupancy } }) =>
    occupancy === 'occupied'
      ? 'it serves its allocation again once it sends heartbeats and reports ready; a ping then proves that it answers. If it stays silent, it fails, and its allocation with it'
      : 'it serves again once it sends heartbeats and reports ready; a ping then proves that it answers',
  next_operation: reactivation,
});
