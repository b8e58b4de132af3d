/**
 * Waits until the evidence tail brings a matching fact, the time is over or the caller disconnects.
 * Long polls use this instead of querying the database.
 */
import type { FastifyRequest } from 'fastify';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { ApiServices } from '../services.ts';

export function waitForFact(
  services: Pick<ApiServices, 'tail' | 'clock'>,
  request: FastifyRequest,
  maxMs: number,
  matches: (fact: Evidence) => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      unsubscribe();
      cancel();
      request.raw.socket.off('close', end);
      resolve();
    };
    const unsubscribe = services.tail.subscribe((fact) => {
      if (matches(fact)) end();
    });
    const cancel = services.clock.after(maxMs, end);
    request.raw.socket.once('close', end);
  });
}
