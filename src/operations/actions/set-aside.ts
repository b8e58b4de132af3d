/** `quarantine` and `reactivate`: a node is set aside for a person to look at, and let back in. */
import { ApiProblem } from '../../contract/errors.ts';
import { instanceRow } from '../../store/instances.ts';
import { reactivation } from '../node-reactivate.ts';
import { moveTo } from './move-to.ts';

export const quarantine = moveTo({
  to: 'quarantined',
  by: 'quarantine',
  says: ({ shown }) =>
    shown.occupancy === 'reserved'
      ? 'it is set aside, and the allocation that waits for it fails'
      : 'it is set aside, as it is, until somebody reactivates or retires it',
});

export const reactivate = moveTo({
  to: 'starting',
  by: 'reactivate',
  says: () => 'it serves again once it beats and says ready; a ping then proves that it answers',
  followed_by: reactivation,
  async check({ tx, node }) {
    const instance = node.node_instance_id ? await instanceRow(tx, node.node_instance_id) : undefined;
    if (!instance || instance.fenced_at)
      throw new ApiProblem(
        'action_illegal',
        `Nothing that it says is believed any more (${instance?.fence_reason ?? 'it has no instance'}); re-enroll it, reimage it or retire it.`,
      );
  },
});
