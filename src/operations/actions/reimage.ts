/** `reimage`: the machine is taken down with proof and brought up anew, as a new instance of its pool as it is now. */
import { ApiProblem } from '../../contract/errors/errors.ts';
import { currentPool, type PoolRow } from '../../store/rows/pools.ts';
import { reimageIn } from '../provision/node-reimage.ts';
import { type Acting, type Action, changedMeanwhile, deadlineIn } from './acting.ts';

/** The pool that the new instance is to be made from. */
export async function launchingPool({ tx, node }: Acting): Promise<PoolRow> {
  const pool = await currentPool(tx, node.pool);
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${node.pool} was deleted; retire the node instead.`);
  if (pool.document.paused)
    throw new ApiProblem('pool_paused', `The pool ${pool.name} launches nothing while it is paused.`);
  return pool;
}

export const reimage: Action = {
  async predict(acting) {
    const { generation } = await launchingPool(acting);
    return {
      status: 'cleaning',
      deadline_at: deadlineIn('cleaning', acting),
      says: `what it knows is kept, it is taken down with proof, and a new instance is brought up from generation ${generation} of its pool`,
    };
  },
  async act(acting) {
    const { tx, services, node, asked, caller, at } = acting;
    const pool = await launchingPool(acting);
    const workflow_id = await reimageIn(tx, services, node, pool, { ...caller, reason: asked.reason }, at);
    if (!workflow_id) throw changedMeanwhile();
    return workflow_id;
  },
};
