/**
 * The intervals of clients that choose their own, as this replica observes them. Forgotten with the
 * session; the heartbeats table keeps the last one.
 */
import type { Clock } from '../../base/clock.ts';
import { type BeatTiming, type Pace, paceOf, recordBeat } from '../../lifecycle/deadlines/pace.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';

export interface Paces {
  /** For a heartbeat that just arrived. `lease_seconds`: how long the client may stay silent. */
  of(session: AgentSession, lease_seconds?: number): Pace;
  /**
   * For a registration. The heartbeat after it may come at once and says nothing about the
   * interval.
   */
  ofRegistration(session: AgentSession): Pace;
}

const judged = (session: AgentSession, seen_seconds: number | null, lease_seconds = 0): Pace =>
  paceOf({
    announced_seconds: session.protocol_client?.announced_interval_seconds ?? null,
    seen_seconds: seen_seconds ?? session.protocol_client?.kept_interval_seconds ?? null,
    usual_seconds: session.interval_seconds,
    stale_after_seconds: session.stale_after_seconds,
    lease_seconds,
  });

export function createPaces(clock: Clock): Paces {
  const seen = new WeakMap<AgentSession, BeatTiming>();
  return {
    of(session, lease_seconds) {
      const pace = recordBeat(seen.get(session), clock.nowMs());
      seen.set(session, pace);
      return judged(session, pace.interval_seconds, lease_seconds);
    },
    ofRegistration: (session) => judged(session, null),
  };
}
