/** Runs the agent: boots, registers, then runs all loops concurrently until one ends the agent. */
import { builtInRedactor } from '../base/redaction/redact.ts';
import type { Log as ServerLog } from '../base/telemetry/log.ts';
import { openTracer } from '../base/telemetry/open-tracer.ts';
import type { RegisterReply } from '../contract/agent/agent.ts';
import { type CallFailure, describeFailure } from './connection/call-failure.ts';
import { type ControlPlane, type ControlPlaneParts, controlPlane } from './connection/control-plane.ts';
import { credentialDoubt, credentialRotation } from './connection/credential.ts';
import { register } from './connection/register.ts';
import { reissueOnce } from './connection/reissue.ts';
import { anyServer, transport } from './connection/transport.ts';
import { type AgentParts, type AgentSurroundings, agentParts } from './life/agent-parts.ts';
import { boot } from './life/boot.ts';
import type { AgentEnd } from './life/exit.ts';
import { startLoops } from './life/loops.ts';
import { type AgentStop, createStop, shutDown, toCrashEnd } from './life/stop.ts';
import { type PrerequisiteGate, prerequisiteGate } from './prerequisites/prerequisite-gate.ts';
import { listRequired } from './prerequisites/prerequisites.ts';
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
  let isReissuing = false;
  const beforeTurn = async (signal: AbortSignal) => {
    // A second request would void the credential that the first one is about to get.
    if (isReissuing || !credentialLoss.mayReissue()) return;
    isReissuing = true;
    const isReissued = await reissueOnce({ ...parts, server, signal }).finally(() => {
      isReissuing = false;
    });
    if (isReissued) callEvents.onAnswer();
  };
  const doubt = credentialDoubt(clock, timing.credential_doubt_ms, timing.unknown_credential_retry, beforeTurn);
  const callEvents: Pick<ControlPlaneParts, 'onAnswer' | 'onFailure'> = {
    onAnswer() {
      if (doubt.clear()) credentialLoss.onKnown();
    },
    onFailure(failure) {
      // Two failures are not reported: a fence (423), which the server records itself, and
      // `beats_slow_down`, because the server has accepted that heartbeat.
      if (failure.status !== 423 && failure.code !== 'beats_slow_down') parts.facts.callFailed(failure);
      // The registration handles its own failures.
      if (failure.call === 'agent-register') return;
      if (failure.code === 'instance_fenced') stop.request({ code: 'instance_fenced', reason: failure.detail });
      if (doubt.confirmLoss(failure)) credentialLoss.onLost(failure);
      if (failure.code === 'credential_expired' && failure.call !== 'agent-credential-rotate') rotateNow();
    },
  };
  const server = controlPlane({
    transport: http,
    credential: () => state.read().identity?.credential ?? null,
    correlation_id: () => config.correlation_id,
    timeout_ms: timing.call_timeout_ms,
    beat_answer_ms: timing.beat_answer_ms,
    waitForTurn: doubt.waitForTurn,
    ...callEvents,
  });
  const isResumed = state.read().identity !== null;
  const gate = prerequisiteGate({ ...parts, signal: stop.signal, is_first_start: !isResumed, begin: work.begin });
  let rotateNow = () => {};
  const credentialLoss = handleCredentialLoss(parts, server, gate, stop);

  const tracer = await openTracer({
    endpoint: config.otlp_endpoint,
    ...(config.otlp_headers && { headers: config.otlp_headers }),
    version: agentVersion,
    service: 'slipway-agent',
    replica_id: config.node_instance_id ?? state.read().identity?.node_instance_id ?? '',
    clock,
    log: { warn: (facts: object, message: string) => parts.log.warn(message, { ...facts }) } as Pick<ServerLog, 'warn'>,
    redact: builtInRedactor,
  });
  let shipper: LogShipper | null = null;
  const runUntilStopped = async () => {
    await work.adopt();
    if (!(await bootAndRegister(parts, server, gate, stop))) return;
    const onLost = (failure: CallFailure) => {
      doubt.markLost();
      credentialLoss.onLost(failure);
    };
    const rotation = credentialRotation({ ...parts, server, signal: stop.signal, onLost });
    rotateNow = rotation.rotateNow;
    const loops = startLoops({
      ...parts,
      ...callEvents,
      waitForTurn: doubt.waitForTurn,
      server,
      signal: stop.signal,
      tracer,
    });
    shipper = loops.shipper;
    await Promise.all([loops.done, rotation.done]);
  };
  await Promise.all([runUntilStopped(), gate.done]).catch((error) => stop.request(toCrashEnd(error)));
  const end = stop.end() ?? toCrashEnd(new Error('the agent ended without a reason'));
  await shutDown(parts, server, shipper, end, surroundings.stopEndsCommand());
  await tracer?.stop();
  http.close();
  spool.close();
  return end;
}

/** Returns whether the agent is registered. */
async function bootAndRegister(
  parts: AgentParts,
  server: ControlPlane,
  gate: PrerequisiteGate,
  stop: AgentStop,
): Promise<boolean> {
  const { config, state, log, spool } = parts;
  const { signal } = stop;
  const isResumed = state.read().identity !== null;
  log.info('agent started', { version: agentVersion, resumed: isResumed });
  const bootFailure = await boot({ ...parts, signal });
  if (bootFailure) stop.request(bootFailure);
  if (isResumed && !signal.aborted) await gate.require(listRequired(config, state));
  const onRegistered = (reply: RegisterReply) => spool.continueAfter(reply.log_acknowledged_seq ?? 0);
  const registrationFailure = await register({ ...parts, server, signal, onRegistered });
  if (registrationFailure) stop.request(registrationFailure);
  if (!signal.aborted) await gate.require(listRequired(config, state));
  return !signal.aborted;
}

/**
 * Handles the loss of the credential. An agent with a join token joins again, with one attempt at a
 * time. Any other agent keeps its command and continues to ask: the server may have been restored
 * from a backup that is older than the machine or its credential. Only a server that has the
 * machine in its store can fence it.
 */
function handleCredentialLoss(parts: AgentParts, server: ControlPlane, gate: PrerequisiteGate, stop: AgentStop) {
  const { config, state, checkResults, report, log } = parts;
  let isJoining = false;
  let isLogged = false;
  let lossCode: string | null = null;
  const joinAgain = async () => {
    isJoining = true;
    // Withhold the status before the new credential is used: the new instance has not passed its
    // prerequisites yet, so it must not report `ready`.
    report.withholdStatus('the machine is joining again');
    checkResults.forget();
    const failure = await register({ ...parts, server, signal: stop.signal });
    isJoining = false;
    if (failure) stop.request(failure);
    else if (!stop.signal.aborted) await gate.require(listRequired(config, state));
  };
  return {
    /** The registration of an agent with a join token asks for a new credential itself. */
    mayReissue: () => lossCode === 'credential_unknown' && !config.join_token,
    onLost(failure: CallFailure) {
      lossCode = failure.code;
      if (config.join_token) {
        if (!isJoining) joinAgain().catch((error) => stop.request(toCrashEnd(error)));
        return;
      }
      if (isLogged) return;
      isLogged = true;
      log.error('the server does not know this machine; keeping the command and asking again', {
        failure: describeFailure(failure),
      });
    },
    onKnown() {
      if (isLogged) log.info('the server knows this machine again');
      isLogged = false;
    },
  };
}
