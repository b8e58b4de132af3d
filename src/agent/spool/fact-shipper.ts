/** Sends the kept facts to the control plane, as soon as it can be reached. */
import type { Clock } from '../../base/clock.ts';
import { isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { Log } from '../log.ts';
import type { Timing } from '../timing.ts';
import type { FactBox } from './fact-box.ts';
import { type ShipLoop, shipLoop } from './ship-loop.ts';

export interface FactShipperParts {
  clock: Clock;
  facts: FactBox;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

const max_at_once = 50;

export function factShipper({ clock, facts, server, log, timing, signal }: FactShipperParts): ShipLoop {
  return shipLoop({
    clock,
    signal,
    batch_ms: timing.log_batch_ms,
    retry: timing.ship_retry,
    async ship() {
      if (facts.isEmpty()) return 'empty';
      const { facts: some, markSent } = facts.take(max_at_once);
      const answer = await server.evidence(some, signal);
      if (answer.ok) {
        markSent();
        return 'more';
      }
      if (answer.failure.code === 'invalid_request' && !isTransient(answer.failure)) {
        log.error('the server refuses these facts; they stay in the log only', { facts: some });
        markSent();
      }
      return answer.failure;
    },
  });
}
