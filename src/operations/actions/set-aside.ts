/** `quarantine` and `reactivate`: a node is set aside for a person to look at, and let back in. */
import type { Occupancy } from '../../lifecycle/model/states.ts';
import { openTeardownsOf } from '../../store/operations/open-operations.ts';
import { markCancelling } from '../../store/operations/operations.ts';
import { reactivation } from '../provision/node-reactivate.ts';
import { reusesNodes } from '../release/release-policy.ts';
import { moveTo } from './move-to.ts';

/** What becomes of it, and of what is on it. `keeps` where the pool uses its machines again: a release then leaves the machine where it is. */
const asideFor: Record<Occupancy, { keeps: string; loses: string }> = {
  free: {
    keeps: 'it is set aside, as it is, until somebody reactivates or retires it',
    loses: 'it is set aside, as it is, until somebody reactivates or retires it',
  },
  reserved: {
    keeps:
      'it is set aside, and the allocation that waits for it fails; once that is released, it can be reactivated, reimaged or retired',
    loses:
      'it is set aside, and the allocation that waits for it fails. Do not release that while you want to look at the machine: in this pool a release takes it down, and it is gone',
  },
  occupied: {
    keeps:
      'it is set aside as it is; its allocation stays on it, and it is given no task. From there reactivate lets it serve that allocation again; to reimage or retire it, its allocation is released first, and proven clean it stays aside',
    loses:
      'it is set aside as it is; its allocation stays on it, and it is given no task. From there reactivate lets it serve that allocation again. Do not release the allocation while you want to look at the machine: in this pool a release takes it down, and it is gone',
  },
  cleanup: {
    keeps: 'it is set aside; the release of its allocation goes on being tried, and proven clean it stays aside',
    loses:
      'it is set aside; the release of its allocation goes on being tried, and that takes the machine down: in this pool it is then gone, and not kept aside',
  },
};

export const quarantine = moveTo({
  to: 'quarantined',
  by: 'quarantine',
  says: ({ shown, pool }) => asideFor[shown.occupancy][reusesNodes(pool) ? 'keeps' : 'loses'],
  // Whatever takes it down would else go on behind the back of who set it aside.
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
      ? 'it serves its allocation again once it beats and says ready; a ping then proves that it answers. If it stays silent, it fails, and its allocation with it'
      : 'it serves again once it beats and says ready; a ping then proves that it answers',
  followed_by: reactivation,
});
