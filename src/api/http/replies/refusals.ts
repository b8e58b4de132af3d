/**
 * Whoever was kept out, and what was asked for and not done, is evidence: who wanted what of which thing, why, and why not. The first
 * of its kind is a row, repeats are counted.
 */
import type { FastifyRequest } from 'fastify';
import { now } from '../../../base/clock.ts';
import { type ApiProblem, type ErrorCode, type ErrorEntry, errorCatalogue } from '../../../contract/errors/errors.ts';
import type { RouteDeclaration } from '../../../contract/route.ts';
import { type OperationName, routes } from '../../../contract/routes.ts';
import type { Fact } from '../../../store/evidence/evidence.ts';
import type { Transaction } from '../../../store/pg/database.ts';
import { refusalWriter } from '../../limits/quotas/writers.ts';
import type { ApiServices } from '../../services.ts';
import { actorOf } from '../callers.ts';
import { createToldOnce } from '../rate-limited-notices.ts';
import { askedFor, idsOfTarget } from '../requested-action.ts';
import { sourceAddress } from '../source-address.ts';

/** Somebody was kept out: by who they are, or by the fence around their machine. */
function isDenial({ code }: ApiProblem): boolean {
  const { owner_layer, detail_layer }: ErrorEntry = errorCatalogue[code];
  return owner_layer === 'auth' || detail_layer === 'fence';
}

/** These are about how it was asked for, and the same request may still be served. */
const aboutTheAsking: readonly ErrorCode[] = ['idempotency_mismatch', 'idempotency_in_progress'];

/** Asked by POST only because it does not fit an address. */
function isQuestion({ operation }: FastifyRequest): boolean {
  if (operation === null || !(operation in routes)) return false;
  const route: RouteDeclaration = routes[operation as OperationName];
  return route.reads_only === true;
}

/** A person wanted a change, and how things stand is in its way; what is another tenant's is not there for them. */
function isRefusal(request: FastifyRequest, { code }: ApiProblem): boolean {
  const { status } = errorCatalogue[code];
  if (!request.person || request.method === 'GET' || isQuestion(request) || aboutTheAsking.includes(code)) return false;
  if (status === 404) return true;
  // A dry run asks what would be; being told that it would be refused is its answer.
  return status === 409 && !askedFor(request).dry_run;
}

/** Every opening of the sign-in page asks whether somebody is signed in; that nobody is, is its answer. */
const onlyAskedWhoItIs = ({ operation }: FastifyRequest, { code }: ApiProblem) =>
  operation === 'session-get' && code === 'token_missing';

export function createRefusalRecorder(
  services: ApiServices,
): (request: FastifyRequest, problem: ApiProblem) => Promise<void> {
  const toldOnce = createToldOnce(services.clock);
  return async (request, problem) => {
    const denied = isDenial(problem);
    if ((!denied && !isRefusal(request, problem)) || onlyAskedWhoItIs(request, problem)) return;
    const { person, agent_session, operation } = request;
    const address = sourceAddress(request);
    const actor = person ? actorOf(person) : { kind: 'address', id: address, name: address };
    const { action, target_id, reason } = askedFor(request);
    const { code, message } = problem;
    // What stands in the way may change while the target and the code stay the same, and then it is news.
    const what = [operation, action, code, ...(denied ? [] : [message])].join(' ');
    const notice = { actor: actor.id, what, target: target_id };
    const entry = toldOnce(notice);
    if (!entry) return;
    const target = entry.of_many_targets ? null : target_id;
    const fact: Fact = {
      at: now(services.clock),
      layer: denied ? 'api' : 'operator',
      kind: denied ? 'request.denied' : 'action.refused',
      summary: denied ? `${action} was refused: ${code}` : `${action} was refused: ${message}`,
      data: { action, operation, code, target_id: target, reason, why_not: message, ...entry },
      actor,
      node_id: agent_session?.node_id ?? null,
      node_instance_id: agent_session?.node_instance_id ?? null,
      correlation_id: request.correlation_id,
    };
    const completeIds = async (tx: Transaction) => {
      Object.assign(fact, await idsOfTarget(target, person, tx));
    };
    const isRecorded = await services.outside.record(refusalWriter(request), [fact], completeIds).catch((error) => {
      toldOnce.undo(notice, entry);
      throw error;
    });
    if (!isRecorded) toldOnce.undo(notice, entry);
  };
}
