/**
 * Runs a person's change in one transaction, together with its idempotency key, its answer and its
 * evidence. A crash leaves all of these or none. A retry after a crash therefore either runs the
 * change for the first time or gets the stored answer.
 */
import { createHash, createHmac } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { now } from '../../base/clock.ts';
import type { KnownIds } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { type Transaction, withinTransaction } from '../../store/pg/database.ts';
import { type KeyScope, reserveKey, storeReply } from '../../store/pg/idempotency.ts';
import type { ApiServices } from '../services.ts';
import { actorOf, type Person } from './callers.ts';

const acceptableKey = /^[!-~]{1,255}$/;

function scopeOf(request: FastifyRequest, person: Person): KeyScope | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !acceptableKey.test(key))
    throw new ApiProblem('invalid_request', 'Idempotency-Key must be 1 to 255 visible characters.');
  return { token_id: person.token_id, key };
}

const contentOf = (request: FastifyRequest): string =>
  `${request.method} ${request.url}\n${canonicalJson(request.body ?? null)}`;

/**
 * Keyed with the idempotency key, which the database does not hold. With a plain hash, anyone who
 * can read the database could confirm a guess of the body.
 */
const hashOf = (request: FastifyRequest, { key }: KeyScope): Buffer =>
  createHmac('sha256', key).update(contentOf(request)).digest();

/** The hash of earlier versions, whose keys are still stored for a day after an update. */
const formerHashOf = (request: FastifyRequest): Buffer => createHash('sha256').update(contentOf(request)).digest();

interface Answer {
  status: number;
  body: unknown;
}

/** Returns the answer to the first request with this key; stores the key if it is new. */
async function findEarlierAnswer(
  tx: Transaction,
  scope: KeyScope,
  request: FastifyRequest,
  services: ApiServices,
): Promise<Answer | undefined> {
  const keyState = await reserveKey(tx, scope, [hashOf(request, scope), formerHashOf(request)], now(services.clock));
  switch (keyState.state) {
    case 'new':
      return undefined;
    case 'mismatch':
      throw new ApiProblem('idempotency_mismatch');
    case 'in_progress':
      throw new ApiProblem('idempotency_in_progress', { retry_after_seconds: 1 });
    case 'answered':
      return { status: keyState.status, body: keyState.reply ?? undefined };
  }
}

/** Reads from an answer the ids of the resources that the call concerned. */
export function idsIn(answer: unknown): KnownIds {
  const { allocation, operation, node, residue, finding } = (answer ?? {}) as {
    allocation?: KnownIds;
    operation?: KnownIds;
    node?: KnownIds;
    residue?: KnownIds;
    finding?: KnownIds;
  };
  const { allocation_id, node_id, node_instance_id, workflow_id } = {
    ...(answer as KnownIds),
    ...finding,
    ...node,
    ...operation,
    ...residue,
    ...allocation,
  };
  return { allocation_id, node_id, node_instance_id: node_instance_id ?? node?.node_instance_id, workflow_id };
}

/** Dry runs change nothing and are frequent. Recording them would bury the real changes. */
const isDryRun = ({ body }: FastifyRequest): boolean =>
  (body as { dry_run?: unknown } | null | undefined)?.dry_run === true;

/** Records who called what. The change itself has its own evidence. */
const recordServed = (
  tx: Transaction,
  request: FastifyRequest,
  person: Person,
  answer: Answer,
  services: ApiServices,
): Promise<void> =>
  recordEvidence(tx, [
    {
      at: now(services.clock),
      layer: 'api',
      kind: 'request.served',
      summary: `${person.name} called ${request.operation} (${answer.status})`,
      data: { operation: request.operation, status: answer.status, params: request.params },
      actor: actorOf(person),
      ...idsIn(answer.body),
      correlation_id: request.correlation_id,
    },
  ]);

/**
 * Runs `work` with services bound to one transaction. A retry gets the answer of the first call.
 */
export async function changeOnce(
  request: FastifyRequest,
  reply: FastifyReply,
  person: Person,
  services: ApiServices,
  work: (services: ApiServices) => Promise<unknown>,
): Promise<unknown> {
  const scope = scopeOf(request, person);
  const afterCommit: (() => Promise<void>)[] = [];
  const { answer, isReplayed } = await services.db.transaction(async (tx) => {
    afterCommit.length = 0;
    const earlierAnswer = scope && (await findEarlierAnswer(tx, scope, request, services));
    if (earlierAnswer) return { answer: earlierAnswer, isReplayed: true };
    const body = await work({
      ...services,
      db: withinTransaction(services.db, tx),
      // Cancel after the commit: a run that wakes earlier would not see the change.
      cancelRun: async (workflow_id, attempt) => {
        afterCommit.push(() => services.cancelRun(workflow_id, attempt));
      },
    });
    const answer = { status: body === undefined ? 204 : reply.statusCode, body };
    if (!isDryRun(request)) await recordServed(tx, request, person, answer, services);
    if (scope) await storeReply(tx, scope, answer.status, body);
    return { answer, isReplayed: false };
  });
  for (const act of afterCommit)
    await act().catch((error) =>
      request.log.error(
        { error, correlation_id: request.correlation_id },
        'could not cancel a run after its change was committed',
      ),
    );
  reply.status(answer.status);
  if (isReplayed) reply.header('idempotency-replayed', 'true');
  return answer.body;
}
