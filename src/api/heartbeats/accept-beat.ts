/**
 * Accepts heartbeats of every protocol. A plain heartbeat is buffered. A heartbeat that reports a
 * change is durable before it is answered, unless the write quota of the machine defers it.
 */
import { now } from '../../base/clock.ts';
import type { Heartbeat, HeartbeatReply } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import { effectiveStaleSeconds } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import { assignedIntervalSeconds, maxAssignableSeconds, type Pace } from '../../lifecycle/deadlines/pace.ts';
import { needsImmediateWrite } from '../../lifecycle/model/reports.ts';
import { recordReport } from '../../store/agents/reports.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { instanceWriter } from '../limits/quotas/writers.ts';
import type { ApiServices } from '../services.ts';

/** The rows of a flush are durable after this time. */
const durableAfterSeconds = 2;
/** An estimate of what a status change writes, reserved until the exact amount is charged. */
const statusReportCost = { rows: 4, bytes: 2 * 1024 };

function assignPace(session: AgentSession, { fleetLoad, overload, beats }: ApiServices): Pace {
  const { stretch } = overload.shedding();
  const wantedSeconds = assignedIntervalSeconds(session.interval_seconds, fleetLoad(), Math.random(), stretch);
  if (beats.flushedThroughMs() > 1000 * (session.assigned_at_seconds + durableAfterSeconds))
    session.stored_interval_ms = session.assigned_interval_ms;
  const storedStaleSeconds = effectiveStaleSeconds(session.stale_after_seconds, session.stored_interval_ms / 1000);
  const interval_seconds = Math.min(wantedSeconds, maxAssignableSeconds(storedStaleSeconds));
  return { interval_seconds, stale_seconds: effectiveStaleSeconds(session.stale_after_seconds, interval_seconds) };
}

/** `said` holds extra fields of a foreign client, as the client sent them. */
export type ReportedBeat = Heartbeat & { said?: Record<string, unknown> };

/** Returns the fields that the node reported besides its status and its instance id. */
function reportedFields(beat: ReportedBeat): Record<string, unknown> | null {
  let reported: Record<string, unknown> | null = null;
  for (const name of Object.keys(beat) as (keyof ReportedBeat)[]) {
    if (name === 'status' || name === 'node_instance_id') continue;
    reported ??= {};
    reported[name] = beat[name];
  }
  return reported;
}

function buffer(session: AgentSession, beat: ReportedBeat, services: ApiServices, pace: Pace): void {
  const received_ms = services.clock.nowMs();
  session.assigned_interval_ms = Math.round(1000 * pace.interval_seconds);
  session.assigned_at_seconds = Math.ceil(received_ms / 1000);
  services.beats.add({
    node_instance_id: session.node_instance_id,
    received_ms,
    interval_seconds: pace.interval_seconds,
    stale_seconds: pace.stale_seconds,
    has_assigned_interval: session.protocol_client === null,
    reported: reportedFields(beat),
  });
}

const replyTo = (session: AgentSession, { interval_seconds }: Pace): HeartbeatReply => ({
  node_status: session.node_status,
  heartbeat_interval_seconds: interval_seconds,
  tasks_waiting: session.tasks_waiting,
});

/**
 * Accepts a heartbeat that reports no change, as nearly all heartbeats do. If it reports a change,
 * returns undefined and has no effect.
 */
export function acceptUnchanged(
  session: AgentSession,
  beat: ReportedBeat,
  services: ApiServices,
  pace: Pace = assignPace(session, services),
): HeartbeatReply | undefined {
  const { node_instance_id } = beat;
  if (node_instance_id !== undefined && node_instance_id !== session.node_instance_id)
    throw new ApiProblem('credential_mismatch', `The credential does not belong to the instance ${node_instance_id}.`);
  if (needsImmediateWrite(session, beat)) return undefined;
  if (services.deferred.size > 0 && beat.status !== undefined) services.deferred.forget(session.node_instance_id);
  buffer(session, beat, services, pace);
  return replyTo(session, pace);
}

/**
 * `received_at` is set for a deferred report, which is dropped if the machine has changed tenants
 * since.
 */
async function recordChange(
  session: AgentSession,
  beat: ReportedBeat,
  services: ApiServices,
  { pace, received_at }: { pace: Pace; received_at?: Date },
): Promise<void> {
  const { node_id, node_instance_id } = session;
  const { node_instance_id: _, ...report } = beat;
  const reporter = {
    node_id,
    node_instance_id,
    stale_seconds: pace.stale_seconds,
    ...(received_at && { received_at }),
  };
  const db = services.writeLimits.database(services.db, instanceWriter(session));
  const outcome = await recordReport(db, reporter, report, now(services.clock), services.environment);
  if (outcome.fenced) throw fencedProblem(await services.sessions.forgetFenced(node_instance_id));
  session.node_status = outcome.status;
  session.reported_status = outcome.reported_status;
  session.verdict_rule = outcome.verdict_rule;
  session.boot_stage = beat.boot_stage ?? session.boot_stage;
}

/**
 * A machine that flaps faster than its write quota allows still counts as alive. Its newest report
 * is recorded once the quota allows.
 */
async function acceptChange(
  session: AgentSession,
  beat: ReportedBeat,
  services: ApiServices,
  pace: Pace,
): Promise<void> {
  buffer(session, beat, services, pace);
  const { writeLimits, deferred, log } = services;
  const writer = instanceWriter(session);
  const release = writeLimits.tryReserve(writer, statusReportCost);
  if (release) {
    deferred.forget(session.node_instance_id);
    return recordChange(session, beat, services, { pace }).finally(release);
  }
  writeLimits.countDeferred(writer);
  const wait = () => writeLimits.waitSeconds(writer);
  const report = { beat, received_at: now(services.clock) };
  deferred.defer(session.node_instance_id, report, wait, ({ beat: newest, received_at }) => {
    // The next heartbeat repeats the report, and its sender gets the error.
    recordChange(session, newest, services, { pace, received_at }).catch((error) =>
      log.debug({ error }, 'a deferred report was not recorded'),
    );
  });
}

/** The caller passes `pace` for clients that choose their own interval. */
export async function acceptBeat(
  session: AgentSession,
  beat: ReportedBeat,
  services: ApiServices,
  pace: Pace = assignPace(session, services),
): Promise<HeartbeatReply> {
  const reply = acceptUnchanged(session, beat, services, pace);
  if (reply) return reply;
  await acceptChange(session, beat, services, pace);
  return replyTo(session, pace);
}

/**
 * In an overload, returns the problem that asks the sender of a single heartbeat to slow down. The
 * heartbeat still counts. Batches and streams are slowed by their interval alone.
 */
export const shedIfOverloaded = (reply: HeartbeatReply, { overload }: ApiServices): ApiProblem | undefined =>
  overload.shedding().beats ? overload.slowDown(reply.heartbeat_interval_seconds) : undefined;

/** Accepts a heartbeat that came as a request of its own. */
export async function acceptSingleBeat(
  session: AgentSession,
  beat: ReportedBeat,
  services: ApiServices,
): Promise<HeartbeatReply> {
  const reply = acceptUnchanged(session, beat, services);
  if (!reply) return acceptBeat(session, beat, services);
  const shed = shedIfOverloaded(reply, services);
  if (shed) throw shed;
  return reply;
}
