/**
 * Records denied callers and refused changes as evidence, with actor, target and reason. The first
 * refusal of a kind gets a row; repeats are counted, and few of them get a row.
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
import { createRateLimitedNotices } from '../rate-limited-notices.ts';
import { findTargetIds, readRequestedAction } from '../refused-action.ts';
import { sourceAddress } from '../source-address.ts';

/** The caller was denied because of its identity or of the fence of its machine. */
function isDenial({ code }: ApiProblem): boolean {
  const { owner_layer, detail_layer }: ErrorEntry = errorCatalogue[code];
  return owner_layer === 'auth' || detail_layer === 'fence';
}

/** These refuse a retry, not the change itself, so they are not recorded as refused changes. */
const idempotencyCodes: readonly ErrorCode[] = ['idempotency_mismatch', 'idempotency_in_progress'];

/** Some reads use POST because their parameters do not fit into an address. */
function isReadOnly({ operation }: FastifyRequest): boolean {
  if (operation === null || !(operation in routes)) return false;
  const route: RouteDeclaration = routes[operation as OperationName];
  return route.reads_only === true;
}

/**
 * A person requested a change that the current state forbids. A 404 counts too: a tenant gets it
 * for another tenant's resources.
 */
function isRefusal(request: FastifyRequest, { code }: ApiProblem): boolean {
  const { status } = errorCatalogue[code];
  if (!request.person || request.method === 'GET' || isReadOnly(request) || idempotencyCodes.includes(code))
    return false;
  if (status === 404) return true;
  // For a dry run, the refusal is the answer.
  return status === 409 && !readRequestedAction(request).dry_run;
}

/** The sign-in page checks whether a session exists; a missing one is no refusal. */
const isSignInCheck = ({ operation }: FastifyRequest, { code }: ApiProblem) =>
  operation === 'session-get' && code === 'token_missing';

export function createRefusalRecorder(
  services: ApiServices,
): (request: FastifyRequest, problem: ApiProblem) => Promise<void> {
  const notices = createRateLimitedNotices(services.clock);
  return async (request, problem) => {
    const isDenied = isDenial(problem);
    if ((!isDenied && !isRefusal(request, problem)) || isSignInCheck(request, problem)) return;
    const { person, agent_session, operation, touched } = request;
    const address = sourceAddress(request);
    const actor = person ? actorOf(person) : { kind: 'address', id: address, name: address };
    const { action, target_id, reason } = readRequestedAction(request);
    const { code, message } = problem;
    // A refused change with a new message gets an entry, even if target and code are the same.
    const noticeKind = [operation, action, code, ...(isDenied ? [] : [message])].join(' ');
    const namedTarget = target_id ?? touched?.node_instance_id ?? null;
    const notice = { actor: actor.id, kind: noticeKind, target: namedTarget };
    const entry = notices.admit(notice);
    if (!entry) return;
    const target = entry.of_many_targets ? null : namedTarget;
    const machine = agent_session ?? (entry.of_many_targets ? null : touched);
    const fact: Fact = {
      at: now(services.clock),
      layer: isDenied ? 'api' : 'operator',
      kind: isDenied ? 'request.denied' : 'action.refused',
      summary: isDenied ? `${action} was refused: ${code}` : `${action} was refused: ${message}`,
      data: { action, operation, code, target_id: target, reason, why_not: message, ...entry },
      actor,
      node_id: machine?.node_id ?? null,
      node_instance_id: machine?.node_instance_id ?? null,
      correlation_id: request.correlation_id,
    };
    const completeIds = async (tx: Transaction) => {
      Object.assign(fact, await findTargetIds(target, person, tx));
    };
    const isRecorded = await services.writeLimits.record(refusalWriter(request), [fact], completeIds).catch((error) => {
      notices.undo(notice, entry);
      throw error;
    });
    if (!isRecorded) notices.undo(notice, entry);
  };
}
