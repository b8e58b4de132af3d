/** Reports met and missing prerequisites to the control plane, as soon as it can be reached. */
import type { Clock } from '../../base/clock.ts';
import { describeFailure, isTransient } from '../connection/call-failure.ts';
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
    batch_ms: 0,
    retry: timing.ship_retry,
    async ship() {
      const unsent = findings.unsent();
      if (!unsent) return 'empty';
      const { results, markSent } = unsent;
      const answer = await server.prerequisites(results, signal);
      if (answer.ok) {
        markSent();
        return 'more';
      }
      // An older control plane does not know the call; it learns what it needs from heartbeats.
      if (!isTransient(answer.failure) && answer.failure.status !== 401) {
        log.warn('the server does not take what was found', { failure: describeFailure(answer.failure), results });
        markSent();
      }
      return answer.failure;
    },
  });
  findings.onConcluded(loop.wake);
  return loop;
}
