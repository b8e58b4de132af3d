/**
 * Treats several addresses of one control plane as one transport: a call without an answer is
 * repeated at the next address.
 */
import type { Transport } from './transport.ts';

/**
 * Safe because every call of the protocol may be repeated. The address that answered last is tried
 * first.
 */
export function anyServer(transports: readonly [Transport, ...Transport[]]): Transport {
  let preferred = 0;
  return {
    async call(call, read) {
      for (let tries = 1; ; tries++) {
        const current = preferred;
        const answer = await (transports[current] ?? transports[0]).call(call, read);
        if (answer.ok || answer.failure.status !== null || call.signal?.aborted) return answer;
        // Another call may have moved on meanwhile.
        if (preferred === current) preferred = (current + 1) % transports.length;
        if (tries >= transports.length) return answer;
      }
    },
    interruptions: () => transports.reduce((sum, each) => sum + each.interruptions(), 0),
    close() {
      for (const transport of transports) transport.close();
    },
  };
}
