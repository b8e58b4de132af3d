/**
 * Rotates the credential at a random moment before it expires, or at once if the server reports it
 * as expired. The new credential is on disk before its first use, and the old one stays valid until
 * that use, so a crash loses nothing.
 */
import { type BackoffLimits, createBackoff } from '../../base/backoff.ts';
import { type Clock, pause } from '../../base/clock.ts';
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

/** Overdue rotations of a fleet are spread over this time. */
const overdueSpreadMs = 60_000;
/** A credential without an expiry is rotated once within this time: the next one may expire. */
const firstExpirySpreadMs = 3_600_000;
/** Fractions of the remaining time: late enough to be rare, early enough for many retries. */
const earliestFraction = 0.6;
const latestFraction = 0.8;

export function credentialRotation(parts: RotationParts): CredentialRotation {
  const { clock, time, state, server, report, log, timing, signal } = parts;
  const rotationPause = waker(clock, signal);
  const pauses = createBackoff(timing.rotate_retry);
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

  /** Returns the pause before the next try; undefined after a success or an abort. */
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
  /** Call it when the server accepted the credential. Returns whether the credential was lost. */
  clear(): boolean;
  /**
   * Returns whether this failure confirms that the server does not know the credential, which is
   * then lost.
   */
  confirmLoss(failure: CallFailure): boolean;
  /** Call it when the credential has expired and cannot be renewed. */
  markLost(): void;
  /**
   * Resolves when a call may ask the server: at once unless the credential is lost. Resolves for
   * all calls when the credential is known again, and at an abort.
   */
  waitForTurn(signal: AbortSignal): Promise<void>;
}

/**
 * Decides when to act on `credential_unknown`: only if the answer continues for a while, because
 * the server may be restoring its database. After that, one call is still sent after each growing
 * pause, because the server may accept the credential again, or fence the machine. `beforeTurn`
 * runs before each of these calls.
 */
export function credentialDoubt(
  clock: Clock,
  doubt_ms: number,
  retry: BackoffLimits,
  beforeTurn: (signal: AbortSignal) => Promise<void>,
): CredentialDoubt {
  let firstRefusalMs: number | null = null;
  /** Set while the credential is lost; aborted once it is known again. */
  let loss: AbortController | null = null;
  let askAtMs = 0;
  const pauses = createBackoff(retry);
  const pauseNextCall = () => {
    askAtMs = clock.monotonicMs() + pauses.nextMs();
  };
  const markLost = () => {
    if (loss) return;
    loss = new AbortController();
    pauseNextCall();
  };
  return {
    clear() {
      const wasLost = loss !== null;
      loss?.abort();
      loss = null;
      firstRefusalMs = null;
      pauses.reset();
      return wasLost;
    },
    confirmLoss(failure) {
      if (failure.code !== 'credential_unknown') return false;
      firstRefusalMs ??= clock.monotonicMs();
      if (clock.monotonicMs() - firstRefusalMs < doubt_ms) return false;
      markLost();
      return true;
    },
    markLost,
    async waitForTurn(signal) {
      while (loss && !signal.aborted) {
        const wait_ms = Math.ceil(askAtMs - clock.monotonicMs());
        if (wait_ms <= 0) {
          pauseNextCall();
          return beforeTurn(signal);
        }
        await pause(clock, wait_ms, AbortSignal.any([signal, loss.signal]));
      }
    },
  };
}
