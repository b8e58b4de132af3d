/**
 * Serves the stream of one agent: receives heartbeats, sends answers and tasks. A heartbeat is
 * processed as if it had come over HTTP.
 */
import type { WebSocket } from 'ws';
import { now } from '../../base/clock.ts';
import type { CorrelationId } from '../../base/ids.ts';
import { BeatFrame, TasksFrame } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import { badBeats } from '../../contract/routes/agent.ts';
import { assignedIntervalSeconds } from '../../lifecycle/deadlines/pace.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { acceptBeat } from '../heartbeats/accept-beat.ts';
import { refuseExpired } from '../http/auth.ts';
import { compileCheck } from '../http/validation.ts';
import type { ApiServices } from '../services.ts';
import { deliverTasks } from '../task-delivery.ts';
import { openWire } from './wire.ts';

export interface AgentCaller {
  session: AgentSession;
  credential: string;
  correlation_id: CorrelationId;
}

const checkBeat = compileCheck(BeatFrame, 'body', 'invalid_request', badBeats(''));
const checkTasks = compileCheck(TasksFrame, 'body');
const limits = { waiting_frames: 32, unsent_bytes: 256 * 1024 };

/**
 * A stream may be silent for three heartbeat intervals, but at least this long: the agent may be
 * sending its heartbeats over HTTP.
 */
const minQuietMs = 30_000;
const maxQuietIntervals = 3;

/**
 * Only a much shorter interval is sent before the next heartbeat. A longer interval waits for the
 * next answer: the heartbeat stores it, and an agent that followed it earlier would look silent.
 */
const minShortening = 1.5;
/** The middle of the random spread of intervals. */
const noSpread = 0.5;

const isTasksFrame = (frame: unknown) => typeof frame === 'object' && frame !== null && 'tasks' in frame;

/**
 * Facts after which the session is read again, since the credential of the stream may no longer be
 * valid. A replaced credential ends only the streams that use the former one.
 */
const endingKinds: readonly string[] = ['instance.fenced', 'instance.revoked', 'credential.replaced'];

export function serveAgent(socket: WebSocket, caller: AgentCaller, services: ApiServices): void {
  const { clock, log, agentStreams } = services;
  const { credential, correlation_id } = caller;
  const { node_id, node_instance_id } = caller.session;
  let lastSession = caller.session;
  const computeUnstretchedSeconds = () =>
    assignedIntervalSeconds(lastSession.interval_seconds, services.fleetLoad(), noSpread);
  // Another replica may have assigned a different interval; the first heartbeat corrects it.
  let assigned_seconds = computeUnstretchedSeconds();
  let last_unstretched_seconds = assigned_seconds;

  const requireSession = async () => {
    const session = services.sessions.getCached(credential) ?? (await services.sessions.find(credential, now(clock)));
    if (!session) throw new ApiProblem('credential_unknown');
    if (session.fence.kind === 'fenced') throw fencedProblem(session.fence.reason);
    refuseExpired(session, null, services);
    lastSession = session;
    return session;
  };
  const tasks = deliverTasks({
    services,
    session: requireSession,
    deliver: (task) => wire.send({ task }),
    onError: (error) => wire.refuse(error),
  });

  const handleFrame = async (frame: unknown) => {
    if (isTasksFrame(frame)) {
      const { idle = false } = checkTasks(frame) as TasksFrame;
      tasks.request(idle);
      return;
    }
    const { seq, ...beat } = checkBeat(frame) as BeatFrame;
    const session = await requireSession();
    const reply = await acceptBeat(session, beat, services);
    assigned_seconds = reply.heartbeat_interval_seconds;
    last_unstretched_seconds = computeUnstretchedSeconds();
    wire.send(seq === undefined ? reply : { seq, ...reply });
    if (session.tasks_waiting > 0) tasks.check();
  };

  const wire = openWire(socket, {
    clock,
    log,
    correlation_id,
    limits,
    handleFrame,
    onEnd(end) {
      leave();
      if (end.broken) agentStreams.reportBroken({ ...end, of: 'agent', node_id, node_instance_id, correlation_id });
    },
  });
  const leave = agentStreams.addAgent(node_instance_id, {
    end: wire.close,
    terminate: wire.terminate,
    observe(fact) {
      if (endingKinds.includes(fact.kind)) requireSession().catch((error) => wire.refuse(error));
      else if (fact.kind.startsWith('task.') || fact.kind.startsWith('node.')) tasks.check();
    },
    check(at_ms) {
      wire.dropSlowReader();
      const maxQuietMs = Math.max(minQuietMs, maxQuietIntervals * assigned_seconds * 1000);
      if (at_ms - wire.lastHeardMs() > maxQuietMs) return wire.close('stream_silent');
      const heartbeat_interval_seconds = computeUnstretchedSeconds();
      // Send nothing during an overload, nor at its end: if all agents sped up at once, the
      // overload would return. So compare unstretched intervals, which an overload does not change.
      const isShorter = heartbeat_interval_seconds * minShortening <= last_unstretched_seconds;
      if (!isShorter || services.overload.shedding().stretch > 1) return;
      assigned_seconds = heartbeat_interval_seconds;
      last_unstretched_seconds = heartbeat_interval_seconds;
      wire.send({ heartbeat_interval_seconds });
    },
  });
}
