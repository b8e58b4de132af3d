/** Several addresses of one control plane as one: what nobody answered at one address is asked at the next. */
import type { Transport } from './transport.ts';

/** All calls of the protocol may be repeated. Whoever answered last is asked first the next time. */
export function anyServer(transports: readonly [Transport, ...Transport[]]): Transport {
  let preferred = 0;
  return {
    async call(call, read) {
      for (let tries = 1; ; tries++) {
        const asked = preferred;
        const answer = await (transports[asked] ?? transports[0]).call(call, read);
        if (answer.ok || answer.failure.status !== null || call.signal?.aborted) return answer;
        // Another call may have moved on meanwhile.
        if (preferred === asked) preferred = (asked + 1) % transports.length;
        if (tries >= transports.length) return answer;
      }
    },
    interruptions: () => transports.reduce((sum, each) => sum + each.interruptions(), 0),
    close() {
      for (const transport of transports) transport.close();
    },
  };
}
