/**
 * Runs each sweep when its timer fires, when evidence wakes it, or on `nudge`. A sweep never
 * overlaps itself. Keeps each sweep's totals and the result of its last run.
 */
import { type Clock, moment, now } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { Sweep, SweepReport } from './sweep.ts';

export interface SweepStatus {
  name: string;
  every_seconds: number;
  runs: number;
  decided: number;
  held: number;
  /** Verdicts that were only recorded, for an observe-only pool. */
  would_have: number;
  last_run_at: Date | null;
  last_seconds: number | null;
  /** The largest delay among the verdicts of the last batch that reported delays. */
  lateness_seconds: number | null;
  /** See `SweepReport`. */
  waiting: boolean;
  error: string | null;
  failed_at: Date | null;
}

export interface SweepRunner {
  start(): void;
  /** Runs a sweep now, or right after its current run. Resolves when that new run has ended. */
  nudge(name: string): Promise<void>;
  observe(fact: Evidence): void;
  /** Runs every sweep now, because those that waited for the end of a restoration may act again. */
  resume(): void;
  statuses(): SweepStatus[];
  /**
   * Starts no more runs of any sweep. Resolves when the current runs have ended. With `names`,
   * waits only for those sweeps; to wait for all, call it again without names.
   */
  stop(names?: readonly string[]): Promise<void>;
}

/**
 * Starting all sweeps at once would open every connection of the database connection pool, and then
 * leave them idle.
 */
const startGapMs = 20;
/** The longest pause before a sweep runs again after the store was unavailable. */
const storeRetrySeconds = 2;

const pausedReport: SweepReport = { decided: 0, waiting: true };

function addToStatus(status: SweepStatus, report: SweepReport, sweep: Sweep): void {
  if (!sweep.isDecision) status.decided += report.decided;
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
  /** While this returns true, only sweeps with `runsAfterRestore` run. */
  isObserving?: () => boolean;
}): SweepRunner {
  const { clock, isObserving = () => false } = options;
  let isStopped = false;

  const sweepLoops = options.sweeps.map((sweep) => {
    const status: SweepStatus = {
      name: sweep.name,
      every_seconds: sweep.every_seconds,
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
    let queuedRun: Promise<void> | undefined;
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
        for (let more = true; more && !isStopped; ) {
          const isPaused = !sweep.runsAfterRestore && isObserving();
          const report = isPaused ? pausedReport : await sweep.run(now(clock));
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
      // Evidence may have scheduled an earlier time during this run (see `runBy`); keep the earlier
      // one.
      if (!isStopped) runAt(Math.min(timerAtMs, clock.nowMs() + waitSeconds * 1000));
    };

    const trigger = (): Promise<void> => {
      if (isStopped) return Promise.resolve();
      if (running) {
        queuedRun ??= running.then(() => {
          queuedRun = undefined;
          return trigger();
        });
        return queuedRun;
      }
      running = runOnce().finally(() => {
        running = undefined;
      });
      return running;
    };

    const runBy = (at: Date) => {
      if (isStopped) return;
      if (running) timerAtMs = Math.min(timerAtMs, at.getTime());
      else if (at.getTime() < timerAtMs) runAt(at.getTime());
    };

    return {
      sweep,
      status,
      trigger,
      runBy,
      cancel: () => cancelTimer(),
      currentRun: () => running,
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
        if (sweep.isDecision?.(fact)) status.decided += 1;
        if (sweep.isWokenBy?.(fact.kind)) void trigger();
        const due = sweep.dueTimeFrom?.(fact);
        if (due) runBy(due);
      }
    },
    resume() {
      for (const { trigger } of sweepLoops) void trigger();
    },
    statuses: () => sweepLoops.map(({ sweep, status }) => ({ ...status, every_seconds: sweep.every_seconds })),
    async stop(names) {
      isStopped = true;
      const isAwaited = ({ sweep }: { sweep: Sweep }) => !names || names.includes(sweep.name);
      for (const loop of sweepLoops) loop.cancel();
      await Promise.all(sweepLoops.filter(isAwaited).map((loop) => loop.currentRun()));
    },
  };
}
