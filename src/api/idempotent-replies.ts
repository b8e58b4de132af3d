/** `Idempotency-Key`: a repeat of a mutating call is answered from the first one's answer, not done again. */
import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { now } from '../base/clock.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import { ApiProblem } from '../contract/errors.ts';
import { claimKey, keepAnswer, releaseKey } from '../store/idempotency.ts';
import type { ApiServices } from './services.ts';

const acceptableKey = /^[!-~]{1,255}$/;

/** Answers true when the reply has been sent already. */
export async function replayed(request: FastifyRequest, reply: FastifyReply, services: ApiServices): Promise<boolean> {
  const key = request.headers['idempotency-key'];
  if (key === undefined || !request.person || request.method === 'GET') return false;
  if (typeof key !== 'string' || !acceptableKey.test(key))
    throw new ApiProblem('invalid_request', 'Idempotency-Key must be 1 to 255 visible characters.');
  const scope = { token_id: request.person.token_id, key };
  const hash = createHash('sha256')
    .update(`${request.method} ${request.url}\n${canonicalJson(request.body ?? null)}`)
    .digest();
  const found = await claimKey(services.db, scope, hash, now(services.clock));
  switch (found.state) {
    case 'new':
      request.idempotency = scope;
      return false;
    case 'mismatch':
      throw new ApiProblem('idempotency_mismatch');
    case 'in_progress':
      throw new ApiProblem('idempotency_in_progress', { retry_after_seconds: 1 });
    case 'answered':
      await reply
        .status(found.status)
        .header('idempotency-replayed', 'true')
        .send(found.reply ?? undefined);
      return true;
  }
}

export async function keepForRepeats(
  request: FastifyRequest,
  status: number,
  answer: unknown,
  services: ApiServices,
): Promise<void> {
  if (!request.idempotency) return;
  if (status < 300) await keepAnswer(services.db, request.idempotency, status, answer);
  else await releaseKey(services.db, request.idempotency);
}
