/**
 * Rotates the credential at a random moment before it expires, or at once if the server reports it
 * as expired. The new credential is on disk before its first use, and the old one stays valid until
 * that use, so a crash loses nothing.
 */
import { backoff, type Span } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import { rotationBody } from '../../contract/agent/credential-rotation.ts';
import type { SelfReport } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { type CallFailure, describeFailure } from './call-failure.ts';
import type { ControlPlane } from './control-plane.ts';
import { signatureOf } from './keys.ts';
import type { ServerTime } from './server-time.ts';

/** Returns null on success; from then on every call uses the new credential. */
export async function rotateOnce(parts: {
  server: ControlPlane;
  state: StateFile;
  signal: AbortSignal;
}): Promise<CallFailure | null> {
  const { server, state, signal } = parts;
  const { identity, private_key } = state.read();
  if (!identity) return null;
  const answer = await server.rotate({ signature: signatureOf(private_key, rotationBody(identity)) }, signal);
  if (!answer.ok) return answer.failure;
  // If the machine joined again meanwhile, this credential belongs to a former instance.
  if (state.read().identity?.credential === identity.credential)
    state.update({ identity: { ...identity, ...answer.body } });
  return null;
}

export interface CredentialRotation {
  /** Rotates at once. Call it if the server refuses the credential as expired. */
  rotateNow(): void;
  done: Promise<void>;
}

export interface RotationParts {
  clock: Clock;
  time: ServerTime;
  server: ControlPlane;
  state: StateFile;
  report: SelfReport;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** Called if the credential cannot be renewed: the machine must enrol or join again. */
  onLost(failure: CallFailure): void;
}

/** These spread the fleet's overdue rotations, and rotations without a known expiry, over time. */
const overdueSpreadMs = 60_000;
const firstExpirySpreadMs = 3_600_000;
/** Fractions of the remaining time: late enough to be rare, early enough for many retries. */
const earliestFraction = 0.6;
const latestFraction = 0.8;

export function credentialRotation(parts: RotationParts): CredentialRotation {
  const { clock, time, state, server, report, log, timing, signal } = parts;
  const rotationPause = waker(clock, signal);
  const pauses = backoff(timing.rotate_retry);
  let neverExpires = false;

  /** Null if no rotation is scheduled. `rotateNow` may still trigger one. */
  const dueInMs = (): number | null => {
    const expires_at = state.read().identity?.credential_expires_at;
    if (expires_at === undefined || (expires_at === null && neverExpires)) return null;
    if (expires_at === null) return Math.random() * firstExpirySpreadMs;
    const remaining_ms = Date.parse(expires_at) - time.nowMs();
    if (remaining_ms <= 0) return Math.random() * overdueSpreadMs;
    return remaining_ms * (earliestFraction + Math.random() * (latestFraction - earliestFraction));
  };

  /** Returns the pause before the next try, or undefined on success. */
  const rotate = async (): Promise<number | undefined> => {
    const failure = await rotateOnce(parts);
    if (signal.aborted) return undefined;
    if (failure) {
      if (pauses.tries() === 0) log.warn('the credential was not rotated', { failure: describeFailure(failure) });
      // The grace period is over. Other refusals may be temporary, for example until an operator
      // accepts a doubtful key.
      if (failure.code === 'credential_expired') parts.onLost(failure);
      return Math.max(pauses.nextMs(), (failure.retry_after_seconds ?? 0) * 1000);
    }
    pauses.reset();
    neverExpires = state.read().identity?.credential_expires_at === null;
    log.info('the credential was rotated');
    // The first use of the new credential ends the old one. Heartbeats may use a stream that was
    // opened with the old one, so make a call with the new one here.
    await server.heartbeat(report.current(), signal);
    return undefined;
  };

  const credential = () => state.read().identity?.credential ?? null;
  /** The credential that the server reported as expired. Several calls may report the same one. */
  let expiredCredential: string | null = null;
  const run = async () => {
    let retry_ms: number | undefined;
    while (!signal.aborted) {
      const wait_ms = retry_ms ?? dueInMs();
      const due_ms = wait_ms === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() + wait_ms;
      await rotationPause.rest(wait_ms);
      const isDue = clock.monotonicMs() >= due_ms || (expiredCredential !== null && expiredCredential === credential());
      expiredCredential = null;
      if (isDue && !signal.aborted) retry_ms = await rotate();
    }
  };
  return {
    rotateNow() {
      // A failed rotation is retried after its pause, not earlier.
      if (pauses.tries() > 0) return;
      expiredCredential = credential();
      rotationPause.wake();
    },
    done: run(),
  };
}

export interface CredentialDoubt {
  /** Call it after a successful call: the credential is known. */
  clear(): void;
  confirmedBy(failure: CallFailure): boolean;
  /** The credential cannot be renewed, and the server refuses it for this reason. */
  lost(refusal: CallFailure): void;
  /** Returns null if a call may ask the server now, or else the refusal to answer it with. */
  heldBack(): CallFailure | null;
}

/**
 * Decides when to believe `credential_unknown`. A single answer may come from a server whose
 * database is being restored, so the answers must continue for a while. After that one call in each
 * growing pause still asks: a server that knows the credential may return, and only such a server
 * can fence the machine.
 */
export function credentialDoubt(clock: Clock, doubt_ms: number, retry: Span): CredentialDoubt {
  let sinceMs: number | null = null;
  let refusal: CallFailure | null = null;
  let askAtMs = 0;
  const pauses = backoff(retry);
  const pauseNextCall = () => {
    askAtMs = clock.monotonicMs() + pauses.nextMs();
  };
  const lost = (failure: CallFailure) => {
    if (refusal === null) pauseNextCall();
    refusal = failure;
  };
  return {
    clear() {
      sinceMs = null;
      refusal = null;
      pauses.reset();
    },
    confirmedBy(failure) {
      if (failure.code !== 'credential_unknown') return false;
      sinceMs ??= clock.monotonicMs();
      if (clock.monotonicMs() - sinceMs < doubt_ms) return false;
      lost(failure);
      return true;
    },
    lost,
    heldBack() {
      if (refusal === null) return null;
      const wait_ms = askAtMs - clock.monotonicMs();
      if (wait_ms > 0) return { ...refusal, retry_after_seconds: wait_ms / 1000 };
      pauseNextCall();
      return null;
    },
  };
}
