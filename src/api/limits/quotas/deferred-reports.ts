/**
 * Defers status reports of machines that change status faster than their write quota allows. One
 * report of each machine waits, usually the newest, and is recorded as soon as the quota allows.
 */
import type { Clock } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import type { Heartbeat } from '../../../contract/agent/agent.ts';

export interface DeferredReport {
  beat: Heartbeat;
  /** If the machine went to another tenant after this time, the report is dropped. */
  received_at: Date;
}

export interface DeferredReports {
  /**
   * Keeps this report until `waitSeconds` returns 0, then records it. The report replaces a waiting
   * one, unless only the waiting one has a status; the functions of the first call stay in use.
   */
  defer(
    id: NodeInstanceId,
    report: DeferredReport,
    waitSeconds: () => number,
    record: (kept: DeferredReport) => void,
  ): void;
  /** Call when a later report contradicts the deferred one or is recorded without delay. */
  forget(id: NodeInstanceId): void;
  readonly size: number;
  stop(): void;
}

/**
 * Reports of further machines are dropped. Our agents repeat the status in every heartbeat; other
 * clients may not.
 */
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
      const earlier = deferred.get(id);
      if (earlier) {
        // A heartbeat without a status does not contradict the reported one. Reports are never
        // merged: they may have been made under two tenants.
        if (report.beat.status !== undefined || earlier.report.beat.status === undefined) earlier.report = report;
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
