/** The one way of a beat, whatever protocol it came by: coalesced, and durable before it is answered where it is news. */
import { now } from '../base/clock.ts';
import type { Heartbeat, HeartbeatReply } from '../contract/agent.ts';
import { ApiProblem } from '../contract/errors.ts';
import { effectiveStaleSeconds } from '../lifecycle/budgets.ts';
import { isNews } from '../lifecycle/claims.ts';
import { assignedIntervalSeconds, type Pace } from '../lifecycle/pace.ts';
import type { AgentSession } from '../store/agent-sessions.ts';
import { recordClaim } from '../store/claims.ts';
import type { ApiServices } from './services.ts';

function assignedPace(session: AgentSession, { fleetLoad }: ApiServices): Pace {
  const interval_seconds = assignedIntervalSeconds(session.interval_seconds, fleetLoad(), Math.random());
  return { interval_seconds, stale_seconds: effectiveStaleSeconds(session.stale_after_seconds, interval_seconds) };
}

/** What a client of another kind said besides, in its own words. */
export type SaidBeat = Heartbeat & { said?: Record<string, unknown> };

/** `pace`: of a client that keeps its own and is not told ours. */
export async function takeBeat(
  session: AgentSession,
  { node_instance_id: meant, ...beat }: SaidBeat,
  services: ApiServices,
  pace: Pace = assignedPace(session, services),
): Promise<HeartbeatReply> {
  if (meant !== undefined && meant !== session.node_instance_id)
    throw new ApiProblem('credential_mismatch', `The credential is not that of the instance ${meant}.`);
  const { interval_seconds, stale_seconds } = pace;
  const { status: _, ...reported } = beat;
  services.beats.add({
    node_instance_id: session.node_instance_id,
    received_ms: services.clock.nowMs(),
    interval_seconds,
    stale_seconds,
    reported: Object.keys(reported).length > 0 ? reported : null,
  });
  if (isNews(session, beat)) {
    const { node_id, node_instance_id } = session;
    const claiming = { node_id, node_instance_id, stale_seconds };
    const outcome = await recordClaim(services.db, claiming, beat, now(services.clock), services.environment);
    if (outcome.fenced) {
      services.sessions.forget(session.node_instance_id);
      throw new ApiProblem('instance_fenced');
    }
    session.node_status = outcome.status;
    session.reported_status = outcome.reported_status;
    session.verdict_rule = outcome.verdict_rule;
    session.boot_stage = beat.boot_stage ?? session.boot_stage;
  }
  return {
    node_status: session.node_status,
    heartbeat_interval_seconds: interval_seconds,
    tasks_waiting: session.tasks_waiting,
  };
}
