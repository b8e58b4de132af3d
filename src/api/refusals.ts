/** What somebody was allowed to ask for and the state did not allow is evidence as well: who wanted what, why, and why not. */
import type { FastifyRequest } from 'fastify';
import { now } from '../base/clock.ts';
import type { KnownIds } from '../base/ids.ts';
import type { ApiProblem, ErrorCode } from '../contract/errors.ts';
import { allocationRow } from '../store/allocations.ts';
import { recordEvidence } from '../store/evidence.ts';
import { readNode } from '../store/nodes.ts';
import { operationRow } from '../store/operations.ts';
import { type ApiServices, actorOf } from './services.ts';
import { createToldOnce } from './told-once.ts';

/** By these an action is refused because of how things stand, and not because of how it was asked for. */
const refusing: readonly ErrorCode[] = ['action_illegal', 'operation_ended', 'pool_paused'];

interface Asked {
  id?: string;
  action?: string;
  reason?: string;
  dry_run?: boolean;
}

const askedOf = (request: FastifyRequest): Asked => {
  const { id, action } = (request.params ?? {}) as Asked;
  const { reason, dry_run } = (request.body ?? {}) as Asked;
  return { id, action, reason, dry_run } as Asked;
};

/** A dry run asks what would be; being told that it would be refused is its answer. */
export const isRefusal = (request: FastifyRequest, problem: ApiProblem): boolean =>
  refusing.includes(problem.code) && request.person !== null && askedOf(request).dry_run !== true;

/** What the id names is only known by looking. */
async function idsOf(id: string | undefined, { db }: ApiServices): Promise<KnownIds> {
  if (id === undefined) return {};
  const allocation = await allocationRow(db, id);
  if (allocation) return { allocation_id: allocation.allocation_id, node_id: allocation.node_id };
  const found = (await readNode(db, id)) ?? (await operationRow(db, id));
  if (!found) return {};
  const { node_id, node_instance_id, allocation_id } = found as KnownIds;
  return { node_id, node_instance_id, allocation_id };
}

export function createRefusalRecorder(
  services: ApiServices,
): (request: FastifyRequest, problem: ApiProblem) => Promise<void> {
  const toldOnce = createToldOnce(services.clock);
  return async (request, problem) => {
    if (!request.person) return;
    const actor = actorOf(request.person);
    const { id, action = request.operation, reason } = askedOf(request);
    const why_not = problem.message;
    const telling = toldOnce([actor.id, id, action, problem.code, why_not].join(' '));
    if (!telling) return;
    await recordEvidence(services.db, [
      {
        at: now(services.clock),
        layer: 'operator',
        kind: 'action.refused',
        summary: `${action} was refused: ${why_not}`,
        data: { action, operation: request.operation, code: problem.code, reason: reason ?? null, why_not, ...telling },
        actor,
        ...(await idsOf(id, services)),
        correlation_id: request.correlation_id,
      },
    ]);
  };
}
