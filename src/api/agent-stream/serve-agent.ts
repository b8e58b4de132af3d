/** The stream of one agent: its beats up, answers and tasks down. What it says passes the same way as a beat by HTTP. */
import type { WebSocket } from 'ws';
import { now } from '../../base/clock.ts';
import type { CorrelationId } from '../../base/ids.ts';
import { BeatFrame, TasksFrame } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { badBeats } from '../../contract/routes/agent.ts';
import { assignedIntervalSeconds } from '../../lifecycle/deadlines/pace.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { takeBeat } from '../heartbeats/accept-beat.ts';
import { fencedProblem, refuseExpired } from '../http/auth.ts';
import { compileCheck } from '../http/validation.ts';
import type { ApiServices } from '../services.ts';
import { handTasks } from '../task-delivery.ts';
import { openWire } from './wire.ts';

export interface AgentCaller {
  session: AgentSession;
  credential: string;
  correlation_id: CorrelationId;
}

const checkBeat = compileCheck(BeatFrame, 'body', 'invalid_request', badBeats(''));
const checkTasks = compileCheck(TasksFrame, 'body');
const limits = { waiting_frames: 32, unsent_bytes: 256 * 1024 };

/** The same patience as with its beats, and never less than this: they may come by HTTP meanwhile. */
const leastQuietMs = 30_000;
const intervalsOfQuiet = 3;

/**
 * Only a much shorter interval is worth a word before the next beat. A longer one must not be: what was stored with the last beat would
 * take an agent for silent that kept to it; so it comes with the next answer.
 */
const muchShorter = 1.5;
/** Each agent spreads by itself what it is told. */
const unspread = 0.5;

const isTasks = (frame: unknown) => typeof frame === 'object' && frame !== null && 'tasks' in frame;

/** These may end what the stream was opened with. Whether they do, the row says: a new credential ends the former one's stream, not its own. */
const mayEndIt: readonly string[] = ['instance.fenced', 'instance.revoked', 'credential.replaced'];

export function serveAgent(socket: WebSocket, caller: AgentCaller, services: ApiServices): void {
  const { clock, log, agentStreams } = services;
  const { credential, correlation_id } = caller;
  const { node_id, node_instance_id } = caller.session;
  let { session: last } = caller;
  const assigned = () => assignedIntervalSeconds(last.interval_seconds, services.fleetLoad(), unspread);
  // Somebody else may have told it last; from its first beat on we know.
  let told_seconds = assigned();
  let fair_seconds = told_seconds;

  const sessionNow = async () => {
    const session = services.sessions.known(credential) ?? (await services.sessions.find(credential, now(clock)));
    if (!session) throw new ApiProblem('credential_unknown');
    if (session.fence.kind === 'fenced') throw fencedProblem(session.fence.reason);
    refuseExpired(session, null, services);
    last = session;
    return session;
  };
  const tasks = handTasks({
    services,
    session: sessionNow,
    hand: (task) => wire.send({ task }),
    onError: (error) => wire.refuse(error),
  });

  const take = async (frame: unknown) => {
    if (isTasks(frame)) {
      const { idle = false } = checkTasks(frame) as TasksFrame;
      tasks.want(idle);
      return;
    }
    const { seq, ...beat } = checkBeat(frame) as BeatFrame;
    const session = await sessionNow();
    const reply = await takeBeat(session, beat, services);
    told_seconds = reply.heartbeat_interval_seconds;
    fair_seconds = assigned();
    wire.send(seq === undefined ? reply : { seq, ...reply });
    if (session.tasks_waiting > 0) tasks.look();
  };

  const wire = openWire(socket, {
    clock,
    log,
    correlation_id,
    limits,
    take,
    onEnd(ending) {
      leave();
      if (ending.broken) agentStreams.tellBroken({ ...ending, of: 'agent', node_id, node_instance_id, correlation_id });
    },
  });
  const leave = agentStreams.addAgent(node_instance_id, {
    end: wire.close,
    cut: wire.cut,
    observe(fact) {
      if (mayEndIt.includes(fact.kind)) sessionNow().catch((error) => wire.refuse(error));
      else if (fact.kind.startsWith('task.') || fact.kind.startsWith('node.')) tasks.look();
    },
    look(at_ms) {
      wire.letGoUnread();
      const patienceMs = Math.max(leastQuietMs, intervalsOfQuiet * told_seconds * 1000);
      if (at_ms - wire.heardMs() > patienceMs) return wire.close('stream_silent');
      const heartbeat_interval_seconds = assigned();
      // Nobody is called in an overload, nor for the end of one: all would come back at once, and it would begin again.
      const isShorter = heartbeat_interval_seconds * muchShorter <= fair_seconds;
      if (!isShorter || services.overload.shedding().stretch > 1) return;
      told_seconds = heartbeat_interval_seconds;
      fair_seconds = heartbeat_interval_seconds;
      wire.send({ heartbeat_interval_seconds });
    },
  });
}
