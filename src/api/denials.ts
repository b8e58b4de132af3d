/** Denials are evidence: the first of its kind as a row, repeats counted and told once an hour, so that a flood cannot fill the store. */
import type { FastifyRequest } from 'fastify';
import { now } from '../base/clock.ts';
import { type ApiProblem, type ErrorEntry, errorCatalogue } from '../contract/errors.ts';
import { recordEvidence } from '../store/evidence.ts';
import { type ApiServices, actorOf } from './services.ts';

const quietMs = 3600_000;
const mostRemembered = 10_000;

/** Somebody was kept out: by who they are, or by the fence around their machine. */
export function isDenial(problem: ApiProblem): boolean {
  const { owner_layer, detail_layer }: ErrorEntry = errorCatalogue[problem.code];
  return owner_layer === 'auth' || detail_layer === 'fence';
}

export function createDenialRecorder(
  services: ApiServices,
): (request: FastifyRequest, problem: ApiProblem) => Promise<void> {
  const told = new Map<string, { atMs: number; repeats: number }>();
  return async (request, problem) => {
    const actor = request.person ? actorOf(request.person) : { kind: 'address', id: request.ip, name: request.ip };
    const key = `${actor.id} ${problem.code} ${request.operation}`;
    const before = told.get(key);
    if (before && services.clock.nowMs() - before.atMs < quietMs) {
      before.repeats++;
      return;
    }
    if (told.size >= mostRemembered) told.clear();
    told.set(key, { atMs: services.clock.nowMs(), repeats: 0 });
    await recordEvidence(services.db, [
      {
        at: now(services.clock),
        layer: 'api',
        kind: 'request.denied',
        summary: `${request.operation ?? request.method} was refused: ${problem.code}`,
        data: {
          operation: request.operation,
          code: problem.code,
          ...(before && { repeats_since_last: before.repeats }),
        },
        actor,
        correlation_id: request.correlation_id,
        node_id: request.agent_session?.node_id ?? null,
        node_instance_id: request.agent_session?.node_instance_id ?? null,
      },
    ]);
  };
}
