/**
 * Defers status reports of machines that change status faster than their write limit allows. The
 * newest report is kept, and recorded as soon as the machine has allowance again.
 */
import type { Clock } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import type { Heartbeat } from '../../../contract/agent/agent.ts';

export interface DeferredReport {
  beat: Heartbeat;
  /** Needed because the machine may have gone to another tenant since. */
  received_at: Date;
}

export interface DeferredReports {
  /**
   * Keeps this report instead of an earlier one; `waitSeconds` tells how long until it may be
   * recorded.
   */
  defer(
    id: NodeInstanceId,
    report: DeferredReport,
    waitSeconds: () => number,
    record: (newest: DeferredReport) => void,
  ): void;
  /** Call when a later report contradicts it or was recorded. */
  forget(id: NodeInstanceId): void;
  readonly size: number;
  stop(): void;
}

/** Further ones are not kept: every heartbeat repeats the status. */
const maxDeferred = 10_000;
const minWaitMs = 100;

export function createDeferredReports(clock: Clock): DeferredReports {
  const deferred = new Map<NodeInstanceId, { report: DeferredReport; cancel: () => void }>();
  const forget = (id: NodeInstanceId) => {
    deferred.get(id)?.cancel();
    deferred.delete(id);
  };
  return {
    defer(id, report, waitSeconds, record) {
      const known = deferred.get(id);
      if (known) {
        // A heartbeat without a status does not contradict the reported one. Reports are never
        // merged: they may have been made under two tenants.
        if (report.beat.status !== undefined || known.report.beat.status === undefined) known.report = report;
        return;
      }
      if (deferred.size >= maxDeferred) return;
      const check = () => {
        const entry = deferred.get(id);
        if (!entry) return;
        const seconds = waitSeconds();
        if (seconds > 0) {
          entry.cancel = clock.after(Math.max(minWaitMs, 1000 * seconds), check);
          return;
        }
        deferred.delete(id);
        record(entry.report);
      };
      deferred.set(id, { report, cancel: clock.after(Math.max(minWaitMs, 1000 * waitSeconds()), check) });
    },
    forget,
    get size() {
      return deferred.size;
    },
    stop() {
      for (const id of [...deferred.keys()]) forget(id);
    },
  };
}
