/** Runs the agent: boots, registers, then runs all loops concurrently until one ends the agent. */
import { builtInRedactor } from '../base/redaction/redact.ts';
import type { Log as ServerLog } from '../base/telemetry/log.ts';
import { openTracer } from '../base/telemetry/open-tracer.ts';
import type { RegisterReply } from '../contract/agent/agent.ts';
import type { CallFailure } from './connection/call-failure.ts';
import { type ControlPlane, type ControlPlaneParts, controlPlane } from './connection/control-plane.ts';
import { credentialDoubt, credentialRotation } from './connection/credential.ts';
import { register } from './connection/register.ts';
import { anyServer, transport } from './connection/transport.ts';
import { type AgentParts, type AgentSurroundings, agentParts } from './life/agent-parts.ts';
import { boot } from './life/boot.ts';
import type { AgentEnd } from './life/exit.ts';
import { startLoops } from './life/loops.ts';
import { type AgentStop, crashed, createStop, shutDown } from './life/stop.ts';
import { type PrerequisiteGate, prerequisiteGate } from './prerequisites/prerequisite-gate.ts';
import { requiredNow } from './prerequisites/prerequisites.ts';
import type { LogShipper } from './spool/log-shipper.ts';
import type { AgentConfig } from './state/config.ts';
import { agentVersion } from './version.ts';

export async function runAgent(config: AgentConfig, surroundings: AgentSurroundings): Promise<AgentEnd> {
  const parts = agentParts(config, surroundings);
  const { clock, state, spool, time, timing, work } = parts;
  surroundings.atExit(work.kill);
  const stop = createStop(surroundings.stop);
  const connect = (url: string) => transport(url, clock, time, config.ca);
  const http = anyServer([connect(config.server_url), ...config.other_server_urls.map(connect)]);
  const doubt = credentialDoubt(clock, timing.credential_doubt_ms);
  const callEvents: Pick<ControlPlaneParts, 'onAnswer' | 'onFailure'> = {
    onAnswer: doubt.dispelled,
    onFailure(failure) {
      // A fence is an answer and recorded where it was given; a node may be fenced for days. A
      // heartbeat that was accepted but slowed down has not failed either.
      if (failure.status !== 423 && failure.code !== 'beats_slow_down') parts.facts.callFailed(failure);
      // The registration handles its own failures.
      if (failure.call === 'agent-register') return;
      if (failure.code === 'instance_fenced') stop.request({ code: 'instance_fenced', reason: failure.detail });
      if (doubt.confirmedBy(failure)) lost(failure);
      if (failure.code === 'credential_expired' && failure.call !== 'agent-credential-rotate') rotateNow();
    },
  };
  const server = controlPlane({
    transport: http,
    credential: () => state.read().identity?.credential ?? null,
    correlation_id: () => config.correlation_id,
    timeout_ms: timing.call_timeout_ms,
    beat_answer_ms: timing.beat_answer_ms,
    ...callEvents,
  });
  const resumed = state.read().identity !== null;
  const gate = prerequisiteGate({ ...parts, signal: stop.signal, first_start: !resumed, begin: work.begin });
  let rotateNow = () => {};
  const lost = credentialLost(parts, server, gate, stop);

  const tracer = await openTracer({
    endpoint: config.otlp_endpoint,
    version: agentVersion,
    service: 'slipway-agent',
    replica_id: config.node_instance_id ?? state.read().identity?.node_instance_id ?? '',
    clock,
    log: { warn: (facts: object, words: string) => parts.log.warn(words, { ...facts }) } as Pick<ServerLog, 'warn'>,
    redact: builtInRedactor,
  });
  let shipper: LogShipper | null = null;
  const live = async () => {
    if (!(await start(parts, server, gate, stop))) return;
    const rotation = credentialRotation({ ...parts, server, signal: stop.signal, onLost: lost });
    rotateNow = rotation.now;
    const loops = startLoops({ ...parts, ...callEvents, server, signal: stop.signal, tracer });
    shipper = loops.shipper;
    await Promise.all([loops.done, rotation.done]);
  };
  await Promise.all([live(), gate.done]).catch((error) => stop.request(crashed(error)));
  const how = stop.how() ?? crashed(new Error('the agent ended without a reason'));
  await shutDown(parts, server, shipper, how);
  await tracer?.stop();
  http.close();
  spool.close();
  return how;
}

/** Returns whether the agent is registered. */
async function start(
  parts: AgentParts,
  server: ControlPlane,
  gate: PrerequisiteGate,
  stop: AgentStop,
): Promise<boolean> {
  const { config, state, log, spool } = parts;
  const { signal } = stop;
  const resumed = state.read().identity !== null;
  log.info('agent starts', { version: agentVersion, resumed });
  const notBooted = await boot({ ...parts, signal });
  if (notBooted) stop.request(notBooted);
  if (resumed && !signal.aborted) await gate.require(requiredNow(config, state));
  const onRegistered = (reply: RegisterReply) => spool.goOnBeyond(reply.log_acknowledged_seq ?? 0);
  const notRegistered = await register({ ...parts, server, signal, onRegistered });
  if (notRegistered) stop.request(notRegistered);
  if (!signal.aborted) await gate.require(requiredNow(config, state));
  return !signal.aborted;
}

/**
 * Without its credential an enrolled agent must end. One that joined may join again, one attempt at
 * a time.
 */
function credentialLost(
  parts: AgentParts,
  server: ControlPlane,
  gate: PrerequisiteGate,
  stop: AgentStop,
): (failure: CallFailure) => void {
  const { config, state, findings, report } = parts;
  let joining = false;
  const joinAgain = async () => {
    joining = true;
    // Before the new credential can be used: as a new instance, the node has not shown yet that it
    // may be ready.
    report.hold('the machine is joining again');
    findings.forget();
    const refused = await register({ ...parts, server, signal: stop.signal });
    joining = false;
    if (refused) stop.request(refused);
    else if (!stop.signal.aborted) await gate.require(requiredNow(config, state));
  };
  return ({ detail }) => {
    if (!parts.config.join_token) stop.request({ code: 'credential_unknown', reason: detail });
    else if (!joining) joinAgain().catch((error) => stop.request(crashed(error)));
  };
}
