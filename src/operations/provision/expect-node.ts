/** Creates a node for a machine that an operator or another system will start. */
import { now } from '../../base/clock.ts';
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { createInstance } from '../../store/agents/instances.ts';
import { isUniqueViolation } from '../../store/pg/database.ts';
import { countLiveNodes } from '../../store/rows/nodes.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { createNode } from '../../store/transitions/node-transition.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';

/** Returns the enrolment token for the machine. */
export async function expectNode(
  services: OperationServices,
  request: { pool: string; name?: string; provision_timeout_seconds?: number; labels?: Record<string, string> },
  caller: Caller,
): Promise<{ node_id: string; enrollment_token: string }> {
  const { db, clock, environment, installation } = services;
  const at = now(clock);
  try {
    return await db.transaction(async (tx) => {
      const pool = await currentPool(tx, request.pool, 'for update of pool');
      if (!pool) throw new ApiProblem('pool_not_found', `There is no pool named ${request.pool}.`);
      if (services.drivers.get(pool.driver)?.launches)
        throw new ApiProblem(
          'pool_not_external',
          `The driver ${pool.driver} launches the machines of pool ${pool.name} itself.`,
        );
      const limit = pool.document.max_nodes;
      if (limit !== undefined && (await countLiveNodes(tx, pool.name)) >= limit)
        throw new ApiProblem('pool_full', `The pool ${pool.name} may have at most ${limit} nodes.`);
      const node_id = newNodeId(clock);
      const node_instance_id = newNodeInstanceId(clock);
      await createNode(
        tx,
        {
          node_id,
          pool: pool.name,
          pool_generation: pool.generation,
          name: request.name ?? `${pool.name.slice(0, 54)}-${node_id.slice(-8)}`,
          zone: pool.document.zone ?? null,
          node_instance_id,
          workflow_id: null,
          correlation_id: caller.correlation_id,
          requested_provision_seconds: request.provision_timeout_seconds ?? null,
          labels: request.labels ?? {},
        },
        pool.document,
        { by: 'node-create', reason: 'an operator expects this machine', actor: caller.actor },
        at,
        environment,
      );
      const enrollment_token = installation.signEnrollmentToken({ pool: pool.name, node_id, node_instance_id });
      await createInstance(tx, { node_instance_id, node_id, enrollment_token }, at);
      return { node_id, enrollment_token };
    });
  } catch (error) {
    if (isUniqueViolation(error, 'nodes_live_name'))
      throw new ApiProblem('name_taken', `A live node of pool ${request.pool} is named ${request.name}.`);
    throw error;
  }
}
