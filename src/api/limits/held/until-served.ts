/**
 * Releases what a request holds (room for its body, a write reservation) once its handler has
 * ended, or when the caller disconnects before the handler starts. A handler that has started runs
 * to its end even if the caller disconnects, so the hold lasts until then too.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { onClose } from './places.ts';

interface Hold {
  state: 'waiting' | 'serving' | 'released';
  releases: (() => void)[];
}

const holds = new WeakMap<FastifyRequest, Hold>();

function releaseAll(hold: Hold): void {
  hold.state = 'released';
  for (const release of hold.releases.splice(0)) release();
}

export function holdUntilServed(request: FastifyRequest, reply: FastifyReply, release: () => void): void {
  const earlierHold = holds.get(request);
  if (earlierHold) {
    earlierHold.releases.push(release);
    return;
  }
  const hold: Hold = { state: 'waiting', releases: [release] };
  holds.set(request, hold);
  onClose(reply, () => {
    if (hold.state === 'waiting') releaseAll(hold);
  });
}

/** Runs the handler of a request, then releases what the request holds. */
export async function serve<Answer>(request: FastifyRequest, handle: () => Promise<Answer>): Promise<Answer> {
  const hold = holds.get(request);
  if (!hold) return handle();
  if (hold.state === 'released')
    throw new ApiProblem('request_timeout', 'The caller disconnected before its request was served.');
  hold.state = 'serving';
  try {
    return await handle();
  } finally {
    releaseAll(hold);
  }
}
