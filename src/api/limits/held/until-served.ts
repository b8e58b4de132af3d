/**
 * Releases what a request holds (room for its body, a write reservation) once its handler has
 * ended, or when the caller disconnects before the handler starts. A handler goes on after its
 * caller has disconnected, and so does the hold.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { onClose } from './places.ts';

interface Held {
  state: 'waiting' | 'serving' | 'released';
  releases: (() => void)[];
}

const heldBy = new WeakMap<FastifyRequest, Held>();

function releaseAll(held: Held): void {
  held.state = 'released';
  for (const release of held.releases.splice(0)) release();
}

export function holdUntilServed(request: FastifyRequest, reply: FastifyReply, release: () => void): void {
  const known = heldBy.get(request);
  if (known) {
    known.releases.push(release);
    return;
  }
  const held: Held = { state: 'waiting', releases: [release] };
  heldBy.set(request, held);
  onClose(reply, () => {
    if (held.state === 'waiting') releaseAll(held);
  });
}

/** Runs the handler of a request, then releases what the request holds. */
export async function serve<Answer>(request: FastifyRequest, handle: () => Promise<Answer>): Promise<Answer> {
  const held = heldBy.get(request);
  if (!held) return handle();
  if (held.state === 'released')
    throw new ApiProblem('request_timeout', 'The caller disconnected before its request was served.');
  held.state = 'serving';
  try {
    return await handle();
  } finally {
    releaseAll(held);
  }
}
