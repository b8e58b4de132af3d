/** `reimage` and `re-enroll` give a node a new instance; `retire` ends the node. */
import { secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { currentPool, type PoolRow } from '../../store/rows/pools.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { reEnrollIn } from '../provision/node-re-enroll.ts';
import { reimageIn } from '../provision/node-reimage.ts';
import { retireIn } from '../release/node-retire.ts';
import { type Action, type ActionContext, changedError, deadlineAfterMove } from './action.ts';

/** Returns the pool for the new instance; throws if the pool was deleted or is paused. */
export async function readLaunchingPool({ tx, node }: ActionContext): Promise<PoolRow> {
  const pool = await currentPool(tx, node.pool);
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${node.pool} was deleted; retire the node instead.`);
  if (pool.document.paused)
    throw new ApiProblem('pool_paused', `The pool ${pool.name} launches nothing while it is paused.`);
  return pool;
}

export const reimage: Action = {
  async predict(context) {
    const { generation } = await readLaunchingPool(context);
    return {
      status: 'cleaning',
      deadline_at: deadlineAfterMove('cleaning', context),
      says: `its evidence is kept, it is torn down with proof, and a new instance is brought up from generation ${generation} of its pool`,
    };
  },
  async act(context) {
    const { tx, services, node, request, caller, at } = context;
    const pool = await readLaunchingPool(context);
    const workflow_id = await reimageIn(tx, services, node, pool, { ...caller, reason: request.reason }, at);
    if (!workflow_id) throw changedError();
    return workflow_id;
  },
};

const allocationEffect: Partial<Record<string, string>> = {
  occupied: '; its allocation stays active',
  reserved: '; its allocation waits for it again',
};

async function readPool(context: ActionContext) {
  const { tx, node, services } = context;
  const pool = await currentPool(tx, node.pool);
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${node.pool} was deleted; retire the node instead.`);
  const launches = services.drivers.get(pool.driver)?.launches ?? false;
  return { pool: launches ? await readLaunchingPool(context) : pool, launches };
}

export const reEnroll: Action = {
  async predict(context) {
    const { pool, launches } = await readPool(context);
    const { services, apiNode, at } = context;
    const { seconds } = budgetOf('provision', pool.document, services.environment, null);
    const says = launches
      ? 'its former instance is torn down with proof, and its driver launches its agent again'
      : `it waits for an agent that is started with the enrolment token, which is shown only once${allocationEffect[apiNode.occupancy] ?? ''}`;
    return { status: 'provisioning', deadline_at: secondsLater(at, seconds), says };
  },
  async act(context) {
    const { tx, services, node, apiNode, request, caller, at } = context;
    const { pool } = await readPool(context);
    const enrolment = await reEnrollIn(
      tx,
      services,
      { node, apiNode, pool, caller: { ...caller, reason: request.reason } },
      at,
    );
    if (!enrolment) throw changedError();
    return enrolment;
  },
};

export const retire: Action = {
  predict: (context) => ({
    status: 'cleaning',
    deadline_at: deadlineAfterMove('cleaning', context),
    says: 'it is torn down with proof and retired',
  }),
  async act({ tx, services, node, request, caller, at }) {
    const cause = { by: 'retire' as const, reason: request.reason, actor: caller.actor };
    const workflow_id = await retireIn(tx, services, node, cause, at);
    if (!workflow_id) throw changedError();
    return workflow_id;
  },
};
