/** Tells the control plane which prerequisites are met and which are missing, as soon as it can be reached. */
import type { Clock } from '../../base/clock.ts';
import { describeFailure, mayPass } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { Log } from '../log.ts';
import { type ShipLoop, shipLoop } from '../spool/ship-loop.ts';
import type { Timing } from '../timing.ts';
import type { Findings } from './prerequisites.ts';

export interface PrerequisiteShipperParts {
  clock: Clock;
  findings: Findings;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

export function prerequisiteShipper(parts: PrerequisiteShipperParts): ShipLoop {
  const { clock, findings, server, log, timing, signal } = parts;
  const loop = shipLoop({
    clock,
    signal,
    gather_ms: 0,
    retry: timing.ship_retry,
    async ship() {
      const untold = findings.untold();
      if (!untold) return 'empty';
      const { results, told } = untold;
      const answer = await server.prerequisites(results, signal);
      if (answer.ok) {
        told();
        return 'more';
      }
      // An older control plane does not know the call; what it could do with the answer it learns from the claims.
      if (!mayPass(answer.failure) && answer.failure.status !== 401) {
        log.warn('the server does not take what was found', { failure: describeFailure(answer.failure), results });
        told();
      }
      return answer.failure;
    },
  });
  findings.onConcluded(loop.wake);
  return loop;
}
