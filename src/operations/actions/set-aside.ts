/** `quarantine` and `reactivate`: a node is set aside for a person to look at, and let back in. */
import type { Occupancy } from '../../lifecycle/states.ts';
import { openTakeDownsOf } from '../../store/open-operations.ts';
import { markCancelling } from '../../store/operations.ts';
import { reactivation } from '../node-reactivate.ts';
import { moveTo } from './move-to.ts';

const asideFor: Record<Occupancy, string> = {
  free: 'it is set aside, as it is, until somebody reactivates or retires it',
  reserved:
    'it is set aside, and the allocation that waits for it fails; once that is released, it can be reactivated, reimaged or retired',
  occupied:
    'it is set aside as it is; its allocation stays on it, and it is given no task. From there reactivate lets it serve that allocation again; to reimage or retire it, its allocation is released first, and proven clean it stays aside',
  cleanup: 'it is set aside; the release of its allocation goes on being tried, and proven clean it stays aside',
};

export const quarantine = moveTo({
  to: 'quarantined',
  by: 'quarantine',
  says: ({ shown }) => asideFor[shown.occupancy],
  // Whatever takes it down would else go on behind the back of who set it aside.
  async also({ tx, services, node, asker, at }) {
    for (const { workflow_id, attempt } of await openTakeDownsOf(tx, node.node_id)) {
      await markCancelling(tx, workflow_id, at, asker.actor);
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
