/** The one way of a beat, whatever protocol it came by: coalesced, and durable before it is answered where it is news. */
import { now } from '../../base/clock.ts';
import type { Heartbeat, HeartbeatReply } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { effectiveStaleSeconds } from '../../lifecycle/deadlines/budgets.ts';
import { assignedIntervalSeconds, maxAssignableSeconds, type Pace } from '../../lifecycle/deadlines/pace.ts';
import { needsImmediateWrite } from '../../lifecycle/model/reports.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { recordReport } from '../../store/agents/reports.ts';
import { fencedProblem } from '../http/auth.ts';
import { instanceWriter } from '../limits/quotas/writers.ts';
import type { ApiServices } from '../services.ts';

/** What is in the table is on the disk a moment later. */
const onDiskAfterSeconds = 2;
/** About what a report that changes a status writes; reserved until the exact amount is charged. */
const statusReportCost = { rows: 4, bytes: 2 * 1024 };

function assignedPace(session: AgentSession, { fleetLoad, overload, beats }: ApiServices): Pace {
  const { stretch } = overload.shedding();
  const wanted = assignedIntervalSeconds(session.interval_seconds, fleetLoad(), Math.random(), stretch);
  if (beats.flushedThroughMs() > 1000 * (session.assigned_at_seconds + onDiskAfterSeconds))
    session.stored_interval_ms = session.assigned_interval_ms;
  const stored = effectiveStaleSeconds(session.stale_after_seconds, session.stored_interval_ms / 1000);
  const interval_seconds = Math.min(wanted, maxAssignableSeconds(stored));
  return { interval_seconds, stale_seconds: effectiveStaleSeconds(session.stale_after_seconds, interval_seconds) };
}

/** What a client of another kind said besides, in its own words. */
export type SaidBeat = Heartbeat & { said?: Record<string, unknown> };

/** What the node said of itself besides its claim. */
function reportedIn(beat: SaidBeat): Record<string, unknown> | null {
  let reported: Record<string, unknown> | null = null;
  for (const name of Object.keys(beat) as (keyof SaidBeat)[]) {
    if (name === 'status' || name === 'node_instance_id') continue;
    reported ??= {};
    reported[name] = beat[name];
  }
  return reported;
}

function hear(session: AgentSession, beat: SaidBeat, services: ApiServices, pace: Pace): void {
  const received_ms = services.clock.nowMs();
  session.assigned_interval_ms = Math.round(1000 * pace.interval_seconds);
  session.assigned_at_seconds = Math.ceil(received_ms / 1000);
  services.beats.add({
    node_instance_id: session.node_instance_id,
    received_ms,
    interval_seconds: pace.interval_seconds,
    stale_seconds: pace.stale_seconds,
    has_assigned_interval: session.protocol_client === null,
    reported: reportedIn(beat),
  });
}

const replyTo = (session: AgentSession, { interval_seconds }: Pace): HeartbeatReply => ({
  node_status: session.node_status,
  heartbeat_interval_seconds: interval_seconds,
  tasks_waiting: session.tasks_waiting,
});

/** Takes a beat that changes nothing, which nearly all do. Undefined for one that is news: nothing has been done with it yet. */
export function takeAtOnce(
  session: AgentSession,
  beat: SaidBeat,
  services: ApiServices,
  pace: Pace = assignedPace(session, services),
): HeartbeatReply | undefined {
  const { node_instance_id: meant } = beat;
  if (meant !== undefined && meant !== session.node_instance_id)
    throw new ApiProblem('credential_mismatch', `The credential is not that of the instance ${meant}.`);
  if (needsImmediateWrite(session, beat)) return undefined;
  if (services.deferred.size > 0 && beat.status !== undefined) services.deferred.forget(session.node_instance_id);
  hear(session, beat, services, pace);
  return replyTo(session, pace);
}

/** `received_at`: of a report that was deferred; it is dropped if the machine has gone to another tenant since. */
async function recordNews(
  session: AgentSession,
  beat: SaidBeat,
  services: ApiServices,
  { pace, received_at }: { pace: Pace; received_at?: Date },
): Promise<void> {
  const { node_id, node_instance_id } = session;
  const { node_instance_id: _, ...claim } = beat;
  const claiming = {
    node_id,
    node_instance_id,
    stale_seconds: pace.stale_seconds,
    ...(received_at && { received_at }),
  };
  const db = services.outside.database(services.db, instanceWriter(session));
  const outcome = await recordReport(db, claiming, claim, now(services.clock), services.environment);
  if (outcome.fenced) throw fencedProblem(await services.sessions.whyFenced(node_instance_id));
  session.node_status = outcome.status;
  session.reported_status = outcome.reported_status;
  session.verdict_rule = outcome.verdict_rule;
  session.boot_stage = beat.boot_stage ?? session.boot_stage;
}

/** A machine that flaps faster than its write limit allows is heard; of its reports the newest is recorded later. */
async function takeNews(session: AgentSession, beat: SaidBeat, services: ApiServices, pace: Pace): Promise<void> {
  hear(session, beat, services, pace);
  const { outside, deferred, log } = services;
  const writer = instanceWriter(session);
  const release = outside.tryReserve(writer, statusReportCost);
  if (release) {
    deferred.forget(session.node_instance_id);
    return recordNews(session, beat, services, { pace }).finally(release);
  }
  outside.countCoalesced(writer);
  const wait = () => outside.waitSeconds(writer);
  const report = { beat, received_at: now(services.clock) };
  deferred.defer(session.node_instance_id, report, wait, ({ beat: newest, received_at }) => {
    // The machine's next beat brings the report again, and meets the same error where somebody is told of it.
    recordNews(session, newest, services, { pace, received_at }).catch((error) =>
      log.debug({ error }, 'a deferred report was not recorded'),
    );
  });
}

/** `pace`: of a client that keeps its own and is not told ours. */
export async function takeBeat(
  session: AgentSession,
  beat: SaidBeat,
  services: ApiServices,
  pace: Pace = assignedPace(session, services),
): Promise<HeartbeatReply> {
  const reply = takeAtOnce(session, beat, services, pace);
  if (reply) return reply;
  await takeNews(session, beat, services, pace);
  return replyTo(session, pace);
}

/**
 * How a beat that came by itself and changed nothing is answered by a replica that hears too many. It was heard; its machine is to
 * beat seldomer. Those of batches and streams are told so by their interval alone.
 */
export const shedOf = (reply: HeartbeatReply, { overload }: ApiServices): ApiProblem | undefined =>
  overload.shedding().beats ? overload.slowDown(reply.heartbeat_interval_seconds) : undefined;

/** A beat that came by itself. */
export async function takeSingle(
  session: AgentSession,
  beat: SaidBeat,
  services: ApiServices,
): Promise<HeartbeatReply> {
  const reply = takeAtOnce(session, beat, services);
  if (!reply) return takeBeat(session, beat, services);
  const shed = shedOf(reply, services);
  if (shed) throw shed;
  return reply;
}
