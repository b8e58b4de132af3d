/**
 * A person's change is one transaction: its idempotency key, its work, its answer and the evidence of who asked. A crash
 * leaves all of it or nothing, so a repeat neither does the work twice nor finds it done without an answer.
 */
import { createHash, createHmac } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { now } from '../../base/clock.ts';
import type { KnownIds } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { type Transaction, withinTransaction } from '../../store/pg/database.ts';
import { claimKey, type KeyScope, keepAnswer } from '../../store/pg/idempotency.ts';
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

/** Keyed by what the database does not hold: a plain hash would let its readers guess what a body held. */
const hashOf = (request: FastifyRequest, { key }: KeyScope): Buffer =>
  createHmac('sha256', key).update(contentOf(request)).digest();

/** As versions before wrote it; a key is kept for a day. */
const formerHashOf = (request: FastifyRequest): Buffer => createHash('sha256').update(contentOf(request)).digest();

interface Answer {
  status: number;
  body: unknown;
}

/** What the first request with this key was answered, when this is a repeat of it. */
async function answeredBefore(
  tx: Transaction,
  scope: KeyScope,
  request: FastifyRequest,
  services: ApiServices,
): Promise<Answer | undefined> {
  const found = await claimKey(tx, scope, [hashOf(request, scope), formerHashOf(request)], now(services.clock));
  switch (found.state) {
    case 'new':
      return undefined;
    case 'mismatch':
      throw new ApiProblem('idempotency_mismatch');
    case 'in_progress':
      throw new ApiProblem('idempotency_in_progress', { retry_after_seconds: 1 });
    case 'answered':
      return { status: found.status, body: found.reply ?? undefined };
  }
}

/** The ids of what a call touched, as its answer names them. */
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

/** A dry run changes nothing and is as often asked as anything is read; told each time, it would bury what was done. */
const isLookAhead = ({ body }: FastifyRequest): boolean =>
  (body as { dry_run?: unknown } | null | undefined)?.dry_run === true;

/** Who asked for what, as evidence of its own layer; the change itself has its evidence already. */
const tellServed = (
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

/** Runs `work` with services that speak to the one transaction, and answers as the first call with this key was answered. */
export async function changeOnce(
  request: FastifyRequest,
  reply: FastifyReply,
  person: Person,
  services: ApiServices,
  work: (services: ApiServices) => Promise<unknown>,
): Promise<unknown> {
  const scope = scopeOf(request, person);
  const afterwards: (() => Promise<void>)[] = [];
  const { answer, again } = await services.db.transaction(async (tx) => {
    afterwards.length = 0;
    const before = scope && (await answeredBefore(tx, scope, request, services));
    if (before) return { answer: before, again: true };
    const body = await work({
      ...services,
      db: withinTransaction(services.db, tx),
      // A run that is told of a change before the change is committed would look and find nothing.
      cancelRun: async (workflow_id, attempt) => {
        afterwards.push(() => services.cancelRun(workflow_id, attempt));
      },
    });
    const answer = { status: body === undefined ? 204 : reply.statusCode, body };
    if (!isLookAhead(request)) await tellServed(tx, request, person, answer, services);
    if (scope) await keepAnswer(tx, scope, answer.status, body);
    return { answer, again: false };
  });
  for (const act of afterwards)
    await act().catch((error) =>
      request.log.error({ error, correlation_id: request.correlation_id }, 'a run was not told of a committed change'),
    );
  reply.status(answer.status);
  if (again) reply.header('idempotency-replayed', 'true');
  return answer.body;
}
