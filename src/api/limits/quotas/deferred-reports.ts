/**
 * Reports of a status by machines that change it faster than their write limit allows. They are not dropped: the newest
 * is kept, and recorded as soon as the machine has allowance again.
 */
import type { Clock } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import type { Heartbeat } from '../../../contract/agent/agent.ts';

export interface DeferredReport {
  beat: Heartbeat;
  /** The machine may have gone to another tenant since. */
  received_at: Date;
}

export interface DeferredReports {
  /** Keeps the report instead of the former one; `waitSeconds` says how long until it may be recorded. */
  defer(
    id: NodeInstanceId,
    report: DeferredReport,
    waitSeconds: () => number,
    record: (newest: DeferredReport) => void,
  ): void;
  /** A later report contradicts it, or was recorded. */
  forget(id: NodeInstanceId): void;
  readonly size: number;
  stop(): void;
}

/** One beyond these is not kept: every beat says its status again, so the next one brings it. */
const maxDeferred = 10_000;
const leastWaitMs = 100;

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
        // A beat without a status does not contradict the one that was reported before. Two reports are never merged: they
        // may have been made under two tenants.
        if (report.beat.status !== undefined || known.report.beat.status === undefined) known.report = report;
        return;
      }
      if (deferred.size >= maxDeferred) return;
      const look = () => {
        const entry = deferred.get(id);
        if (!entry) return;
        const seconds = waitSeconds();
        if (seconds > 0) {
          entry.cancel = clock.after(Math.max(leastWaitMs, 1000 * seconds), look);
          return;
        }
        deferred.delete(id);
        record(entry.report);
      };
      deferred.set(id, { report, cancel: clock.after(Math.max(leastWaitMs, 1000 * waitSeconds()), look) });
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
