/** Renews the lease of a running task, and aborts the work if the lease is lost. */
import { type Clock, pause } from '../../base/clock.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import { describeFailure, isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { ServerTime } from '../connection/server-time.ts';
import type { Log } from '../log.ts';

export interface LeaseParts {
  clock: Clock;
  time: ServerTime;
  server: ControlPlane;
  log: Log;
  signal: AbortSignal;
}

export interface Lease {
  /** Aborted when the work should end: the lease is lost, the task expired, or the agent stops. */
  lost: AbortSignal;
  /** The task has expired; its outcome is still reported. */
  expired(): boolean;
  end(): void;
}

/** More than one renewal per lease, so that one lost call does not lose it. */
const renewals_per_lease = 3;
const min_renewal_ms = 100;

export function holdLease({ clock, time, server, log, signal }: LeaseParts, task: SignedTask): Lease {
  const lost = new AbortController();
  const over = new AbortController();
  let expired = false;
  const lose = () => lost.abort();
  signal.addEventListener('abort', lose, { once: true });
  const cancel = clock.after(Date.parse(task.expires_at) - time.nowMs(), () => {
    expired = true;
    lose();
  });
  const renew = async () => {
    let lease_seconds = task.lease_seconds;
    while (true) {
      await pause(clock, Math.max(min_renewal_ms, (lease_seconds * 1000) / renewals_per_lease), over.signal);
      if (over.signal.aborted || lost.signal.aborted) return;
      const answer = await server.progress(task, `${task.type} is running`, over.signal);
      if (answer.ok) lease_seconds = answer.body.lease_seconds;
      else if (!isTransient(answer.failure) && !over.signal.aborted) {
        log.warn('the lease is lost; ending the work', { failure: describeFailure(answer.failure) });
        return lose();
      }
    }
  };
  renew();
  return {
    lost: lost.signal,
    expired: () => expired,
    end() {
      signal.removeEventListener('abort', lose);
      cancel();
      over.abort();
    },
  };
}
