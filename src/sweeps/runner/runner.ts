/** Runs each sweep by timer, evidence or nudge, one run at a time, and records the last run. */
import { type Clock, moment, now } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { Sweep, SweepReport } from './sweep.ts';

export interface SweepStatus {
  name: string;
  runs: number;
  decided: number;
  held: number;
  would_have: number;
  last_run_at: Date | null;
  last_seconds: number | null;
  /** The largest lateness among the verdicts of the last run that decided anything. */
  lateness_seconds: number | null;
  /** The sweep decided nothing, because this replica is not sure that it receives heartbeats. */
  waiting: boolean;
  error: string | null;
  failed_at: Date | null;
}

export interface SweepRunner {
  start(): void;
  /** Runs a sweep now; resolves after a run that began after this call. */
  nudge(name: string): Promise<void>;
  observe(fact: Evidence): void;
  statuses(): SweepStatus[];
  stop(): Promise<void>;
}

/** Starting all sweeps at once would open every connection of the pool and then leave them idle. */
const startGapMs = 20;
/** A sweep that failed because the store is away runs again after this time, not its interval. */
const storeRetrySeconds = 2;

function addToStatus(status: SweepStatus, report: SweepReport, sweep: Sweep): void {
  if (!sweep.decided_by) status.decided += report.decided;
  status.held += report.held ?? 0;
  status.would_have += report.would_have ?? 0;
  status.waiting = report.waiting ?? false;
  const lateness = report.lateness_seconds ?? [];
  if (lateness.length > 0) status.lateness_seconds = lateness.reduce((worst, each) => Math.max(worst, each), 0);
}

export function createSweepRunner(options: {
  sweeps: Sweep[];
  clock: Clock;
  onError: (name: string, error: unknown) => void;
}): SweepRunner {
  const { clock } = options;
  let stopped = false;

  const sweepLoops = options.sweeps.map((sweep) => {
    const status: SweepStatus = {
      name: sweep.name,
      runs: 0,
      decided: 0,
      held: 0,
      would_have: 0,
      last_run_at: null,
      last_seconds: null,
      lateness_seconds: null,
      waiting: false,
      error: null,
      failed_at: null,
    };
    let running: Promise<void> | undefined;
    let again: Promise<void> | undefined;
    let cancelTimer: () => void = () => {};
    let timerAtMs = Number.POSITIVE_INFINITY;

    const runAt = (atMs: number) => {
      cancelTimer();
      timerAtMs = atMs;
      cancelTimer = clock.after(Math.max(0, Math.ceil(atMs - clock.nowMs())), () => void trigger());
    };

    const runOnce = async () => {
      cancelTimer();
      timerAtMs = Number.POSITIVE_INFINITY;
      const startedMs = clock.monotonicMs();
      let waitSeconds = sweep.every_seconds;
      try {
        for (let more = true; more && !stopped; ) {
          const report = await sweep.run(now(clock));
          addToStatus(status, report, sweep);
          more = report.more ?? false;
          waitSeconds = Math.min(sweep.every_seconds, Math.max(0, report.next_in_seconds ?? Number.POSITIVE_INFINITY));
        }
        status.error = null;
      } catch (error) {
        status.failed_at = now(clock);
        // A failing sweep stops neither the others nor its own next run.
        status.error = error instanceof Error ? error.message : String(error);
        options.onError(sweep.name, error);
        if (error instanceof StoreUnavailable) waitSeconds = Math.min(waitSeconds, storeRetrySeconds);
      }
      status.runs++;
      status.last_run_at = now(clock);
      status.last_seconds = (clock.monotonicMs() - startedMs) / 1000;
      // A run that evidence scheduled during this one keeps its time.
      if (!stopped) runAt(Math.min(timerAtMs, clock.nowMs() + waitSeconds * 1000));
    };

    const trigger = (): Promise<void> => {
      if (stopped) return Promise.resolve();
      if (running) {
        again ??= running.then(() => {
          again = undefined;
          return trigger();
        });
        return again;
      }
      running = runOnce().finally(() => {
        running = undefined;
      });
      return running;
    };

    const runBy = (at: Date) => {
      if (stopped) return;
      if (running) timerAtMs = Math.min(timerAtMs, at.getTime());
      else if (at.getTime() < timerAtMs) runAt(at.getTime());
    };

    return {
      sweep,
      status,
      trigger,
      runBy,
      settle: async () => {
        cancelTimer();
        await running;
      },
    };
  });

  return {
    start() {
      for (const [index, loop] of sweepLoops.entries()) loop.runBy(moment(clock.nowMs() + index * startGapMs));
    },
    async nudge(name) {
      await sweepLoops.find((loop) => loop.sweep.name === name)?.trigger();
    },
    observe(fact) {
      for (const { sweep, status, trigger, runBy } of sweepLoops) {
        if (sweep.decided_by?.(fact)) status.decided += 1;
        if (sweep.woken_by?.(fact.kind)) void trigger();
        const due = sweep.due_by?.(fact);
        if (due) runBy(due);
      }
    },
    statuses: () => sweepLoops.map((loop) => ({ ...loop.status })),
    async stop() {
      stopped = true;
      await Promise.all(sweepLoops.map((loop) => loop.settle()));
    },
  };
}
