/**
 * The agent's report about itself, which every heartbeat contains. The server decides which status
 * follows from it.
 */
import type { Heartbeat } from '../../contract/agent/agent.ts';
import type { ReportedStatus } from '../../lifecycle/model/reports.ts';

export interface SelfReport {
  current(): Heartbeat;
  set(status: ReportedStatus, message?: string): void;
  /**
   * Reports `starting` with this reason instead of the status that was set, because the machine is
   * not ready to report it. `stopping` is reported anyway. Null reports the set status again.
   */
  withholdStatus(reason: string | null): void;
  isStatusWithheld(): boolean;
  /** Sets the number of running tasks, which the next heartbeat contains. */
  setActiveTasks(count: number): void;
  /** The listener is called when the reported status or message changes. */
  onChange(listener: () => void): void;
}

const healthByStatus: Record<ReportedStatus, { health_score: number; error_rate: number }> = {
  starting: { health_score: 100, error_rate: 0 },
  ready: { health_score: 100, error_rate: 0 },
  degraded: { health_score: 25, error_rate: 1 },
  stopping: { health_score: 100, error_rate: 0 },
};

export function createSelfReport(bootStage: () => string | null): SelfReport {
  let status: ReportedStatus = 'starting';
  let message: string | undefined;
  let withholdReason: string | null = null;
  let active_tasks = 0;
  const listeners: (() => void)[] = [];
  const selectReported = (): { status: ReportedStatus; message: string | undefined } =>
    withholdReason === null || status === 'stopping'
      ? { status, message }
      : { status: 'starting', message: withholdReason };
  const change = (apply: () => void) => {
    const before = selectReported();
    apply();
    const after = selectReported();
    if (before.status === after.status && before.message === after.message) return;
    for (const listener of listeners) listener();
  };
  return {
    current() {
      const boot_stage = bootStage();
      const { status: reportedStatus, message: reportedMessage } = selectReported();
      return {
        status: reportedStatus,
        ...healthByStatus[reportedStatus],
        active_tasks,
        ...(boot_stage === null ? {} : { boot_stage }),
        ...(reportedMessage === undefined ? {} : { message: reportedMessage.slice(0, 1024) }),
      };
    },
    set: (newStatus, newMessage) =>
      change(() => {
        status = newStatus;
        message = newMessage;
      }),
    withholdStatus: (reason) =>
      change(() => {
        withholdReason = reason;
      }),
    isStatusWithheld: () => withholdReason !== null,
    setActiveTasks(count) {
      active_tasks = count;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
