/**
 * Rotates the credential before it expires, at a moment of this agent's own, and at once when the server says that it has.
 * The new one is on the disk before it is first used; until then the former one holds, so a crash anywhere loses nothing.
 */
import { backoff } from '../../../base/backoff.ts';
import type { Clock } from '../../../base/clock.ts';
import { rotationBody } from '../../../contract/agent/credential-rotation.ts';
import type { Claims } from '../../life/report.ts';
import { waker } from '../../life/waker.ts';
import type { Log } from '../../log.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { Timing } from '../../timing.ts';
import { type CallFailure, describeFailure } from '../call-failure.ts';
import type { ControlPlane } from '../control-plane.ts';
import { signed } from '../keys.ts';
import type { ServerTime } from '../server-time.ts';

/** Null where it worked: from then on every call shows the new credential. */
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
  // The machine may have joined anew meanwhile; then this credential is of a former instance.
  if (state.read().identity?.credential === identity.credential)
    state.update({ identity: { ...identity, ...answer.body } });
  return null;
}

export interface CredentialRotation {
  /** The server refuses the credential as expired. */
  now(): void;
  done: Promise<void>;
}

export interface RotationParts {
  clock: Clock;
  time: ServerTime;
  server: ControlPlane;
  state: StateFile;
  claims: Claims;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** Nothing but a new enrolment, or joining anew, leads back. */
  onLost(failure: CallFailure): void;
}

/** Within which a fleet spreads what is overdue, or what never had an expiry. */
const overdueSpreadMs = 60_000;
const firstExpirySpreadMs = 3_600_000;
/** Of the time that is left: late enough to be rare, early enough to be tried many times. */
const earliest = 0.6;
const latest = 0.8;

export function credentialRotation(parts: RotationParts): CredentialRotation {
  const { clock, time, state, server, claims, log, timing, signal } = parts;
  const rest = waker(clock, signal);
  const pauses = backoff(timing.rotate_retry);
  let neverExpires = false;

  /** Null: not by itself. */
  const dueInMs = (): number | null => {
    const expires_at = state.read().identity?.credential_expires_at;
    if (expires_at === undefined || (expires_at === null && neverExpires)) return null;
    if (expires_at === null) return Math.random() * firstExpirySpreadMs;
    const left_ms = Date.parse(expires_at) - time.nowMs();
    return left_ms > 0 ? left_ms * (earliest + Math.random() * (latest - earliest)) : Math.random() * overdueSpreadMs;
  };

  /** How long to wait before the next try; undefined where it worked. */
  const rotate = async (): Promise<number | undefined> => {
    const failure = await rotateOnce(parts);
    if (signal.aborted) return undefined;
    if (failure) {
      if (pauses.tries() === 0) log.warn('the credential was not rotated', { failure: describeFailure(failure) });
      // The grace period is over. Every other refusal may pass: an operator may accept a key that is in doubt.
      if (failure.code === 'credential_expired') parts.onLost(failure);
      return Math.max(pauses.nextMs(), (failure.retry_after_seconds ?? 0) * 1000);
    }
    pauses.reset();
    neverExpires = state.read().identity?.credential_expires_at === null;
    log.info('the credential was rotated');
    // Its first use ends the former one, also where all beats go by a stream that was opened with that.
    await server.heartbeat(claims.current(), signal);
    return undefined;
  };

  const credential = () => state.read().identity?.credential ?? null;
  /** The credential that the server called expired; several calls may say so of the same one. */
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
      // While a try has failed, its pause counts.
      if (pauses.tries() > 0) return;
      refused = credential();
      rest.wake();
    },
    done: run(),
  };
}
