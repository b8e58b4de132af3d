/**
 * Rotates the credential before it expires, at a random moment, and at once if the server reports
 * it expired. The new one is on disk before its first use, and the former one stays valid until
 * then, so a crash loses nothing.
 */
import { backoff } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import { rotationBody } from '../../contract/agent/credential-rotation.ts';
import type { SelfReport } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { type CallFailure, describeFailure } from './call-failure.ts';
import type { ControlPlane } from './control-plane.ts';
import { signed } from './keys.ts';
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
  const answer = await server.rotate({ signature: signed(private_key, rotationBody(identity)) }, signal);
  if (!answer.ok) return answer.failure;
  // The machine may have joined again meanwhile; this credential then belongs to a former instance.
  if (state.read().identity?.credential === identity.credential)
    state.update({ identity: { ...identity, ...answer.body } });
  return null;
}

export interface CredentialRotation {
  /** Call it if the server refuses the credential as expired. */
  now(): void;
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
  /** The credential is lost for good: the machine has to enrol or join again. */
  onLost(failure: CallFailure): void;
}

/** Spreads overdue rotations, and those without a known expiry, over a fleet. */
const overdueSpreadMs = 60_000;
const firstExpirySpreadMs = 3_600_000;
/** Fraction of the remaining time: late enough to be rare, early enough for many retries. */
const earliest = 0.6;
const latest = 0.8;

export function credentialRotation(parts: RotationParts): CredentialRotation {
  const { clock, time, state, server, report, log, timing, signal } = parts;
  const rest = waker(clock, signal);
  const pauses = backoff(timing.rotate_retry);
  let neverExpires = false;

  /** Null if no rotation is scheduled; another event may still trigger one. */
  const dueInMs = (): number | null => {
    const expires_at = state.read().identity?.credential_expires_at;
    if (expires_at === undefined || (expires_at === null && neverExpires)) return null;
    if (expires_at === null) return Math.random() * firstExpirySpreadMs;
    const left_ms = Date.parse(expires_at) - time.nowMs();
    return left_ms > 0 ? left_ms * (earliest + Math.random() * (latest - earliest)) : Math.random() * overdueSpreadMs;
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
    // First use of the new credential ends the former one, even if heartbeats go by a stream that
    // was opened with it.
    await server.heartbeat(report.current(), signal);
    return undefined;
  };

  const credential = () => state.read().identity?.credential ?? null;
  /** The credential that the server called expired; several calls may report the same one. */
  let refused: string | null = null;
  const run = async () => {
    let retry_ms: number | undefined;
    while (!signal.aborted) {
      const wait_ms = retry_ms ?? dueInMs();
      const due_ms = wait_ms === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() + wait_ms;
      await rest.rest(wait_ms);
      const isDue = clock.monotonicMs() >= due_ms || (refused !== null && refused === credential());
      refused = null;
      if (isDue && !signal.aborted) retry_ms = await rotate();
    }
  };
  return {
    now() {
      // After a failed try, its pause applies.
      if (pauses.tries() > 0) return;
      refused = credential();
      rest.wake();
    },
    done: run(),
  };
}

interface CredentialDoubt {
  /** A call was answered, so the credential is known. */
  dispelled(): void;
  confirmedBy(failure: CallFailure): boolean;
}

/**
 * Decides when to believe `credential_unknown`: one may come from a server whose store is being
 * restored, many over a while do not.
 */
export function credentialDoubt(clock: Clock, doubt_ms: number): CredentialDoubt {
  let since: number | null = null;
  return {
    dispelled() {
      since = null;
    },
    confirmedBy({ code }) {
      if (code !== 'credential_unknown') return false;
      since ??= clock.monotonicMs();
      if (clock.monotonicMs() - since < doubt_ms) return false;
      since = null;
      return true;
    },
  };
}
