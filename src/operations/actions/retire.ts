/** `retire`: takes a node down for good, with proof, when no allocation is in the way. */
import { retireIn } from '../release/node-retire.ts';
import { type Action, changedMeanwhile, deadlineIn } from './acting.ts';

export const retire: Action = {
  predict: (acting) => ({
    status: 'cleaning',
    deadline_at: deadlineIn('cleaning', acting),
    says: 'it is taken down with proof, and then retired',
  }),
  async act({ tx, services, node, asked, caller, at }) {
    const cited = { by: 'retire' as const, reason: asked.reason, actor: caller.actor };
    const workflow_id = await retireIn(tx, services, node, cited, at);
    if (!workflow_id) throw changedMeanwhile();
    return workflow_id;
  },
};
