/** Registers the instance, first with its enrolment or join token and later with its credential. */
import { createBackoff } from '../../base/backoff.ts';
import { type Clock, moment, pause } from '../../base/clock.ts';
import type { RegisterReply, RegisterRequest } from '../../contract/agent/agent.ts';
import { keyProofBody } from '../../contract/agent/key-proof.ts';
import type { BootStages } from '../life/boot-stages.ts';
import type { AgentEnd } from '../life/exit.ts';
import type { Log } from '../log.ts';
import type { AgentConfig } from '../state/config.ts';
import { type Identity, type StateFile, tokenDigest } from '../state/state-file.ts';
import { acceptKeys } from '../tasks/task-keys.ts';
import type { Timing } from '../timing.ts';
import { agentVersion } from '../version.ts';
import { type CallFailure, describeFailure, isTransient } from './call-failure.ts';
import type { ControlPlane } from './control-plane.ts';
import { rotateOnce } from './credential.ts';
import { publicKeyOf, signatureOf } from './keys.ts';
import { reissueOnce } from './reissue.ts';
import type { ServerTime } from './server-time.ts';

export interface RegisterParts {
  config: AgentConfig;
  clock: Clock;
  time: ServerTime;
  server: ControlPlane;
  state: StateFile;
  stages: BootStages;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** Called after a successful registration, before the agent sends any other request. */
  onRegistered?(reply: RegisterReply): void;
}

/**
 * If the server has never answered, the agent has only its own clock, which may be wrong. It then
 * tries at least this many times before it gives up at its deadline.
 */
const min_tries_on_own_clock = 3;

/** Returns null on success, or if the agent was stopped meanwhile. */
export async function register(parts: RegisterParts): Promise<AgentEnd | null> {
  const { config, clock, state, stages, log, timing, signal } = parts;
  if (!state.read().identity && !config.enrollment_token && !config.join_token) {
    const reason = 'there is neither a token nor a credential to register with';
    return { code: 'registration_refused', reason, failure: { code: 'token_missing', detail: '' } };
  }
  const pauses = createBackoff(timing.register_retry);
  if (stages.unsent().length > 0 && !parts.time.isKnown())
    await parts.server.askTime(timing.ask_time_timeout_ms, signal);
  let deadline_at = firstDeadline(parts);
  // A machine that joined before sends the key proof at once, others only after a refusal.
  let sendsKeyProof = state.read().enrolled_with !== null;
  let hasTriedProof = false;
  let offersRotation = true;
  /** The server refuses the stored credential for good. It stays stored until a new one comes. */
  let isCredentialLost = false;
  let isCredentialUnknown = false;
  let isJoining = false;
  const slowPauses = createBackoff(timing.unknown_credential_retry);
  const askAgainLater = async (failure: CallFailure) => {
    isJoining = false;
    hasTriedProof = false;
    const wait_ms = slowPauses.nextMs();
    log.error('the server does not know this machine; keeping the command and asking again', {
      failure: describeFailure(failure),
      retry_in_ms: Math.round(wait_ms),
    });
    await pause(clock, wait_ms, signal);
    if (isCredentialUnknown && !signal.aborted) isCredentialUnknown = !(await reissueOnce(parts));
  };
  while (!signal.aborted) {
    const identity = isJoining ? null : state.read().identity;
    const answer = await parts.server.register(requestOf(parts, { identity, sendsKeyProof, offersRotation }), {
      credential: identity?.credential ?? null,
      correlation_id: config.correlation_id,
      signal,
    });
    if (answer.ok) {
      const end = saveRegistration(parts, answer.body);
      if (!end) parts.onRegistered?.(answer.body);
      if (!end) log.info(identity ? 'registered again' : 'registered', { tries: pauses.tries() + 1 });
      return end;
    }
    if (signal.aborted) break;
    const { failure } = answer;
    if (failure.code === 'credential_unknown' && identity) {
      isCredentialLost = true;
      isCredentialUnknown = true;
      if (config.join_token) {
        // With its key the machine can still prove that it is the known machine of this name.
        log.warn('the server does not know this credential; joining again');
        isJoining = true;
      } else await askAgainLater(failure);
      continue;
    }
    if (asksForProof(failure) && config.join_token && !hasTriedProof) {
      // The proof contains the server's time, which is known from the refusal.
      hasTriedProof = true;
      sendsKeyProof = true;
      continue;
    }
    if (failure.code === 'invalid_request' && offersRotation) {
      // An earlier version of the server refuses `rotates_credential` as an unknown field, so omit
      // it. Credentials of that version do not expire.
      offersRotation = false;
      continue;
    }
    if (failure.code === 'credential_expired' && identity) {
      const rotationFailure = await rotateOnce({ ...parts, state, signal });
      if (!rotationFailure) continue;
      if (rotationFailure.code === 'instance_fenced') return refusal(rotationFailure);
      if (!isTransient(rotationFailure)) {
        isCredentialLost = true;
        if (config.join_token) {
          log.warn('the credential has expired and cannot be renewed; joining again');
          isJoining = true;
        } else await askAgainLater(rotationFailure);
        continue;
      }
    }
    if (failure.code === 'claim_from_future' && stages.dropTimes()) continue;
    if (!isTransient(failure) && isCredentialLost && failure.code !== 'instance_fenced') {
      await askAgainLater(failure);
      continue;
    }
    if (!isTransient(failure) && failure.code !== 'credential_expired') return refusal(failure);
    if (failure.deadline_at !== null && failure.deadline_at !== deadline_at) {
      // The server's newest answer applies: an operator may have moved the deadline.
      deadline_at = failure.deadline_at;
      state.update({ deadline_at });
    }
    const wait_ms = Math.max(pauses.nextMs(), (failure.retry_after_seconds ?? 0) * 1000);
    const isLate = !state.read().identity && isPast(parts, deadline_at, pauses.tries());
    if (isLate)
      return {
        code: 'registration_deadline',
        reason: deadlineReason(deadline_at, pauses.tries(), failure),
        failure: toEndFailure(failure),
      };
    log.warn('not registered yet', {
      failure: describeFailure(failure),
      retry_in_ms: Math.round(wait_ms),
      deadline_at,
    });
    await pause(clock, Math.min(wait_ms, msUntilDeadline(parts, deadline_at)), signal);
  }
  return null;
}

/**
 * Returns the deadline that applies before the first answer: the configured one, or the one that
 * the server sent to an earlier process of this agent, whichever is later.
 */
function firstDeadline({ config, state }: RegisterParts): string | null {
  const { deadline_at: stored } = state.read();
  if (stored === null || config.deadline_at === null) return stored ?? config.deadline_at;
  return Date.parse(stored) > Date.parse(config.deadline_at) ? stored : config.deadline_at;
}

const asksForProof = ({ code }: CallFailure) => code === 'identity_unproven' || code === 'name_taken';

/**
 * Proves that this machine holds the key it registered with before; see
 * `contract/agent/key-proof.ts`.
 */
function proofOf({ config, state, time }: RegisterParts): Pick<RegisterRequest, 'key_proof'> {
  const { private_key } = state.read();
  const { name, join_token, base_url } = config;
  if (!name || !join_token) return {};
  const signed_at = moment(time.nowMs()).toISOString();
  const agent_public_key = publicKeyOf(private_key);
  const body = keyProofBody({ name, join_token, agent_public_key, base_url: base_url ?? undefined, signed_at });
  return { key_proof: { signed_at, signature: signatureOf(private_key, body) } };
}

function requestOf(
  parts: RegisterParts,
  {
    identity,
    sendsKeyProof,
    offersRotation,
  }: { identity: Identity | null; sendsKeyProof: boolean; offersRotation: boolean },
): RegisterRequest {
  const { config, state, stages: bootStages } = parts;
  const { private_key } = state.read();
  const stages = identity ? bootStages.unsent() : bootStages.all();
  const token = config.enrollment_token
    ? { enrollment_token: config.enrollment_token }
    : config.join_token
      ? { join_token: config.join_token }
      : {};
  return {
    ...(identity ? {} : token),
    ...(config.name ? { name: config.name } : {}),
    ...(config.base_url ? { base_url: config.base_url } : {}),
    version: agentVersion,
    agent_public_key: publicKeyOf(private_key),
    ...(!identity && !config.enrollment_token && sendsKeyProof ? proofOf(parts) : {}),
    ...(offersRotation ? { rotates_credential: true } : {}),
    ...(stages.length > 0 ? { boot: { stages } } : {}),
    ...(Object.keys(config.labels).length > 0 ? { labels: config.labels } : {}),
  };
}

function saveRegistration({ config, state, log }: RegisterParts, reply: RegisterReply): AgentEnd | null {
  const { node_id, node_instance_id } = reply;
  const credential = reply.credential ?? state.read().identity?.credential;
  if (!credential)
    return { code: 'registration_refused', reason: 'the server registered the agent but sent no credential' };
  const token = config.enrollment_token ?? config.join_token;
  const { credential_expires_at } = reply;
  const expiry = credential_expires_at === undefined ? {} : { credential_expires_at };
  state.update({
    identity: { node_id, node_instance_id, credential, ...expiry },
    enrolled_with: token ? tokenDigest(token) : state.read().enrolled_with,
    task_keys: acceptKeys(state.read().task_keys, reply, log),
    task_key_refresh_seconds: reply.task_key_refresh_seconds ?? null,
    requires: reply.requires ?? null,
    boot_stages_sent: state.read().boot_stages.length,
  });
  return null;
}

function refusal(failure: CallFailure): AgentEnd {
  const code = failure.code === 'instance_fenced' ? 'instance_fenced' : 'registration_refused';
  return { code, reason: `the registration was refused: ${describeFailure(failure)}`, failure: toEndFailure(failure) };
}

const toEndFailure = ({ code, detail }: CallFailure) => ({ code, detail });

/** A pause ends at the deadline at the latest, so that one last try follows. */
function msUntilDeadline({ time }: RegisterParts, deadline_at: string | null): number {
  const remaining_ms = deadline_at === null ? Number.POSITIVE_INFINITY : Date.parse(deadline_at) - time.nowMs();
  return remaining_ms > 0 ? remaining_ms : Number.POSITIVE_INFINITY;
}

function isPast({ time }: RegisterParts, deadline_at: string | null, tries: number): boolean {
  if (deadline_at === null || Date.parse(deadline_at) > time.nowMs()) return false;
  return time.isKnown() || tries >= min_tries_on_own_clock;
}

const deadlineReason = (deadline_at: string | null, tries: number, lastFailure: CallFailure) =>
  `the agent could not register by its deadline ${deadline_at}, in ${tries} tries; last failure: ${describeFailure(lastFailure)}`;
