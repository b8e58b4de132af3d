/**
 * What a request holds until it is served: room for its body, a reservation for what it writes. Released when its handler has
 * ended, or when the caller leaves before the handler began. A handler goes on after its caller has left, and so does the hold.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { whenOver } from './places.ts';

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
  whenOver(reply, () => {
    if (held.state === 'waiting') releaseAll(held);
  });
}

/** Runs the handler of a request, then releases what it holds. */
export async function serve<Answer>(request: FastifyRequest, handle: () => Promise<Answer>): Promise<Answer> {
  const held = heldBy.get(request);
  if (!held) return handle();
  if (held.state === 'released')
    throw new ApiProblem('request_timeout', 'The caller left before its request was served.');
  held.state = 'serving';
  try {
    return await handle();
  } finally {
    releaseAll(held);
  }
}
