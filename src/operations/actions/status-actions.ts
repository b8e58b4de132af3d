/** Actions that change a node's status: `drain`, `undrain`, `quarantine` and `reactivate`. */
import { newWorkflowId } from '../../base/ids.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import type { NodeStatus, Occupancy } from '../../lifecycle/model/states.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { openTeardownsOf } from '../../store/operations/open-operations.ts';
import { markCancelling } from '../../store/operations/operations.ts';
import { type NewOperation, queueOperation } from '../../store/operations/queue-operation.ts';
import type { NodeChanges } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { reactivation } from '../provision/node-reactivate.ts';
import { type Acting, type Action, changedMeanwhile, citing, deadlineIn } from './action.ts';

interface Move {
  to: NodeStatus;
  by: Cause;
  says(acting: Acting): string;
  set?(acting: Acting): NodeChanges;
  /** The operation to queue after the change. */
  followed_by?: Pick<NewOperation, 'kind' | 'revision' | 'tenant' | 'params' | 'steps'>;
  /** Further changes in the same transaction. */
  also?(acting: Acting): Promise<void>;
}

export const moveTo = ({ to, by, says, set, also, followed_by }: Move): Action => ({
  predict: (acting) => ({ status: to, deadline_at: deadlineIn(to, acting), says: says(acting) }),
  async act(acting) {
    const { tx, services, node, at } = acting;
    const { actor, correlation_id } = citing(acting);
    const operation = followed_by && { workflow_id: newWorkflowId(services.clock), correlation_id };
    const move = {
      node_id: node.node_id,
      from: [node.status],
      to,
      by,
      ...citing(acting),
      ...operation,
      set: { ...set?.(acting), ...operation },
    };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw changedMeanwhile();
    await also?.(acting);
    const { node_id, node_instance_id } = node;
    if (followed_by && operation)
      await queueOperation(tx, { ...followed_by, ...operation, actor, node_id, node_instance_id }, at);
    return operation?.workflow_id;
  },
});

const drainEffect = { hold: 'quarantined', retire: 'torn down for good' } as const;

export const drain = moveTo({
  to: 'draining',
  by: 'drain',
  says: ({ request, shown }) =>
    `it takes no new work; ${shown.occupancy === 'free' ? 'it is empty, so' : 'once it is empty'} it is ${drainEffect[request.drain_then ?? 'hold']}`,
  set: ({ request }) => ({ drain_then: request.drain_then ?? 'hold' }),
});

export const undrain = moveTo({ to: 'ready', by: 'undrain', says: () => 'it takes work again' });

/**
 * The effect of a quarantine by occupancy. `keeps` is for pools that reuse machines, where a
 * release leaves the machine. `loses` is for pools where a release tears it down.
 */
const quarantineEffect: Record<Occupancy, { keeps: string; loses: string }> = {
  free: {
    keeps: 'it is quarantined as it is, until somebody reactivates or retires it',
    loses: 'it is quarantined as it is, until somebody reactivates or retires it',
  },
  reserved: {
    keeps:
      'it is quarantined, and the allocation that waits for it fails; once that is released, you can reactivate, reimage or retire it',
    loses:
      'it is quarantined, and the allocation that waits for it fails. Do not release that allocation while you inspect the machine: in this pool a release tears it down',
  },
  occupied: {
    keeps:
      'it is quarantined as it is; its allocation stays on it, and it gets no tasks. Reactivate it to serve that allocation again. To reimage or retire it, release the allocation first; proven clean, it stays quarantined',
    loses:
      'it is quarantined as it is; its allocation stays on it, and it gets no tasks. Reactivate it to serve that allocation again. Do not release the allocation while you inspect the machine: in this pool a release tears it down',
  },
  cleanup: {
    keeps: 'it is quarantined; the release of its allocation is still retried, and proven clean, it stays quarantined',
    loses:
      'it is quarantined; the release of its allocation is still retried, and in this pool that tears the machine down',
  },
};

export const quarantine = moveTo({
  to: 'quarantined',
  by: 'quarantine',
  says: ({ shown, pool }) => quarantineEffect[shown.occupancy][reusesNodes(pool) ? 'keeps' : 'loses'],
  // Cancel teardowns, which would otherwise continue on the quarantined machine.
  async also({ tx, services, node, caller, at }) {
    for (const { workflow_id, attempt } of await openTeardownsOf(tx, node.node_id)) {
      await markCancelling(tx, workflow_id, at, caller.actor);
      await services.cancelRun(workflow_id, attempt);
    }
  },
});

export const reactivate = moveTo({
  to: 'starting',
  by: 'reactivate',
  says: ({ shown: { occupancy } }) =>
    occupancy === 'occupied'
      ? 'it serves its allocation again once it sends heartbeats and reports ready; a ping then proves that it answers. If it stays silent, it fails, and its allocation with it'
      : 'it serves again once it sends heartbeats and reports ready; a ping then proves that it answers',
  followed_by: reactivation,
});
