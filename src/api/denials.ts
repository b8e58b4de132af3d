/** Denials are evidence: the first of its kind as a row, repeats counted. */
import type { FastifyRequest } from 'fastify';
import { now } from '../base/clock.ts';
import { type ApiProblem, type ErrorEntry, errorCatalogue } from '../contract/errors.ts';
import { recordEvidence } from '../store/evidence.ts';
import { type ApiServices, actorOf } from './services.ts';
import { createToldOnce } from './told-once.ts';

/** Somebody was kept out: by who they are, or by the fence around their machine. */
export function isDenial(problem: ApiProblem): boolean {
  const { owner_layer, detail_layer }: ErrorEntry = errorCatalogue[problem.code];
  return owner_layer === 'auth' || detail_layer === 'fence';
}

export function createDenialRecorder(
  services: ApiServices,
): (request: FastifyRequest, problem: ApiProblem) => Promise<void> {
  const toldOnce = createToldOnce(services.clock);
  return async (request, problem) => {
    const actor = request.person ? actorOf(request.person) : { kind: 'address', id: request.ip, name: request.ip };
    const telling = toldOnce(`${actor.id} ${problem.code} ${request.operation}`);
    if (!telling) return;
    await recordEvidence(services.db, [
      {
        at: now(services.clock),
        layer: 'api',
        kind: 'request.denied',
        summary: `${request.operation ?? request.method} was refused: ${problem.code}`,
        data: { operation: request.operation, code: problem.code, ...telling },
        actor,
        correlation_id: request.correlation_id,
        node_id: request.agent_session?.node_id ?? null,
        node_instance_id: request.agent_session?.node_instance_id ?? null,
      },
    ]);
  };
}
