/**
 * Limits the size of all request bodies that this replica holds for callers that it cannot identify
 * yet, because their credential is in the body. Each source has its own limit, and large bodies
 * leave room for small ones. If a body is not complete at the deadline, the connection is closed.
 */
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../../base/clock.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { declaredBytes } from '../../http/bodies/declared-size.ts';
import { sourceNetwork } from '../../http/source-address.ts';
import { holdUntilServed } from './until-served.ts';

export interface BodyBudget {
  /** Call before the body is read. Throws 429 if there is no room for the body. */
  admit(request: FastifyRequest, reply: FastifyReply, maxBytes: number): void;
  heldBytes(): number;
}

const kb = 1024;
const mb = 1024 * kb;
const defaultLimits = {
  total_bytes: 64 * mb,
  source_bytes: 16 * mb,
  /** Sign-ins and most registrations are smaller than this. */
  small_body_bytes: 16 * kb,
  /** Room that large bodies cannot take. */
  for_small_bytes: 16 * mb,
  deadline_ms: 20_000,
};
const retryAfterSeconds = 1;

export function createBodyBudget(
  clock: Clock,
  onLate: (socket: Socket) => void,
  limits: typeof defaultLimits = defaultLimits,
): BodyBudget {
  const bytesBySource = new Map<string, number>();
  let total = 0;

  const change = (source: string, bytes: number) => {
    total += bytes;
    const sourceBytes = (bytesBySource.get(source) ?? 0) + bytes;
    if (sourceBytes > 0) bytesBySource.set(source, sourceBytes);
    else bytesBySource.delete(source);
  };
  const refuse = (detail: string) => {
    throw new ApiProblem('rate_limited', { detail, retry_after_seconds: retryAfterSeconds });
  };

  return {
    admit(request, reply, maxBytes) {
      const bytes = declaredBytes(request, maxBytes);
      // A relay's token is checked before its batch is read.
      if (bytes === 0 || request.relay) return;
      const source = sourceNetwork(request);
      const room = limits.total_bytes - (bytes > limits.small_body_bytes ? limits.for_small_bytes : 0);
      if ((bytesBySource.get(source) ?? 0) + bytes > limits.source_bytes)
        refuse(`The bodies of this address's unanswered requests would exceed ${limits.source_bytes / mb} MB.`);
      if (total + bytes > room)
        refuse('The bodies of unanswered requests from unknown callers would exceed the limit of this replica.');
      change(source, bytes);
      const cancel = clock.after(limits.deadline_ms, () => {
        if (!request.raw.complete) onLate(request.raw.socket);
      });
      holdUntilServed(request, reply, () => {
        cancel();
        change(source, -bytes);
      });
    },
    heldBytes: () => total,
  };
}
