/**
 * Tracks the heartbeat intervals of clients that choose their own, as this replica observes them.
 * The observations end with the session; the heartbeats table keeps the last interval.
 */
import type { Clock } from '../../base/clock.ts';
import { type BeatTiming, type Pace, paceOf, recordBeat } from '../../lifecycle/deadlines/pace.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';

export interface Paces {
  /** Counts a heartbeat that just arrived. The client may stay silent for `lease_seconds`. */
  afterBeat(session: AgentSession, lease_seconds?: number): Pace;
  /** Counts no heartbeat: the first one may follow a registration at once. */
  afterRegistration(session: AgentSession): Pace;
}

const judgePace = (session: AgentSession, measured_seconds: number | null, lease_seconds = 0): Pace =>
  paceOf({
    announced_seconds: session.protocol_client?.announced_interval_seconds ?? null,
    measured_seconds: measured_seconds ?? session.protocol_client?.stored_interval_seconds ?? null,
    usual_seconds: session.interval_seconds,
    stale_after_seconds: session.stale_after_seconds,
    lease_seconds,
  });

export function createPaces(clock: Clock): Paces {
  const timings = new WeakMap<AgentSession, BeatTiming>();
  return {
    afterBeat(session, lease_seconds) {
      const timing = recordBeat(timings.get(session), clock.nowMs());
      timings.set(session, timing);
      return judgePace(session, timing.interval_seconds, lease_seconds);
    },
    afterRegistration: (session) => judgePace(session, null),
  };
}
