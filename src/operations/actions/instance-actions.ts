/** `reimage` and `re-enroll` give a node a new instance; `retire` ends the node. */
import { secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { currentPool, type PoolRow } from '../../store/rows/pools.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { reEnrollIn } from '../provision/node-re-enroll.ts';
import { reimageIn } from '../provision/node-reimage.ts';
import { retireIn } from '../release/node-retire.ts';
import { type Acting, type Action, changedMeanwhile, deadlineIn } from './action.ts';

/** Returns the pool for the new instance; throws if the pool was deleted or is paused. */
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
      says: `its evidence is kept, it is torn down with proof, and a new instance is brought up from generation ${generation} of its pool`,
    };
  },
  async act(acting) {
    const { tx, services, node, request, caller, at } = acting;
    const pool = await launchingPool(acting);
    const workflow_id = await reimageIn(tx, services, node, pool, { ...caller, reason: request.reason }, at);
    if (!workflow_id) throw changedMeanwhile();
    return workflow_id;
  },
};

const allocationEffect: Partial<Record<string, string>> = {
  occupied: '; its allocation stays active',
  reserved: '; its allocation waits for it again',
};

async function readPool(acting: Acting) {
  const { tx, node, services } = acting;
  const pool = await currentPool(tx, node.pool);
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${node.pool} was deleted; retire the node instead.`);
  const launches = services.drivers.get(pool.driver)?.launches ?? false;
  return { pool: launches ? await launchingPool(acting) : pool, launches };
}

export const reEnroll: Action = {
  async predict(acting) {
    const { pool, launches } = await readPool(acting);
    const { services, shown, at } = acting;
    const { seconds } = budgetOf('provision', pool.document, services.environment, null);
    const says = launches
      ? 'its former instance is torn down with proof, and its driver launches its agent again'
      : `it waits for an agent that is started with the enrolment token, which is shown only once${allocationEffect[shown.occupancy] ?? ''}`;
    return { status: 'provisioning', deadline_at: secondsLater(at, seconds), says };
  },
  async act(acting) {
    const { tx, services, node, shown, request, caller, at } = acting;
    const { pool } = await readPool(acting);
    const enrolment = await reEnrollIn(
      tx,
      services,
      { node, shown, pool, caller: { ...caller, reason: request.reason } },
      at,
    );
    if (!enrolment) throw changedMeanwhile();
    return enrolment;
  },
};

export const retire: Action = {
  predict: (acting) => ({
    status: 'cleaning',
    deadline_at: deadlineIn('cleaning', acting),
    says: 'it is torn down with proof and retired',
  }),
  async act({ tx, services, node, request, caller, at }) {
    const cause = { by: 'retire' as const, reason: request.reason, actor: caller.actor };
    const workflow_id = await retireIn(tx, services, node, cause, at);
    if (!workflow_id) throw changedMeanwhile();
    return workflow_id;
  },
};
