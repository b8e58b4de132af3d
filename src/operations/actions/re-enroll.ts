/** `re-enroll`: the same machine enrols again, as a new instance, when its credential was lost. */
import { secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { reEnrollIn } from '../provision/node-re-enroll.ts';
import { type Acting, type Action, changedMeanwhile } from './acting.ts';
import { launchingPool } from './reimage.ts';

const kept: Partial<Record<string, string>> = {
  occupied: '; its allocation stays active',
  reserved: '; its allocation waits for it again',
};

async function poolOf(acting: Acting) {
  const { tx, node, services } = acting;
  const pool = await currentPool(tx, node.pool);
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${node.pool} was deleted; retire the node instead.`);
  const launches = services.drivers.get(pool.driver)?.launches ?? false;
  return { pool: launches ? await launchingPool(acting) : pool, launches };
}

export const reEnroll: Action = {
  async predict(acting) {
    const { pool, launches } = await poolOf(acting);
    const { services, shown, at } = acting;
    const { seconds } = budgetOf('provision', pool.document, services.environment, null);
    const says = launches
      ? 'what is left of its former instance is taken down with proof, and its driver launches its agent again'
      : `it waits for its agent to be started with the token that is shown now, and only now${kept[shown.occupancy] ?? ''}`;
    return { status: 'provisioning', deadline_at: secondsLater(at, seconds), says };
  },
  async act(acting) {
    const { tx, services, node, shown, asked, caller, at } = acting;
    const { pool } = await poolOf(acting);
    const enrolled = await reEnrollIn(
      tx,
      services,
      { node, shown, pool, caller: { ...caller, reason: asked.reason } },
      at,
    );
    if (!enrolled) throw changedMeanwhile();
    return enrolled;
  },
};
