/** Waits, within bounds, until the evidence tail brings a fact that somebody waits for; long polls hang on this and ask no database. */
import type { FastifyRequest } from 'fastify';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { ApiServices } from '../services.ts';

export function untilFact(
  services: Pick<ApiServices, 'tail' | 'clock'>,
  request: FastifyRequest,
  mostMs: number,
  wanted: (fact: Evidence) => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      unsubscribe();
      cancel();
      request.raw.socket.off('close', end);
      resolve();
    };
    const unsubscribe = services.tail.subscribe((fact) => {
      if (wanted(fact)) end();
    });
    const cancel = services.clock.after(mostMs, end);
    request.raw.socket.once('close', end);
  });
}
