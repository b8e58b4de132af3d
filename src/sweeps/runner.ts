/** Runs the sweeps: by timer or by nudge, the same code path, one run of a sweep at a time, its last run on record. */
import { type Clock, now } from '../base/clock.ts';
import type { Evidence } from '../contract/evidence.ts';
import type { Sweep } from './sweep.ts';

export interface SweepStatus {
  name: string;
  runs: number;
  decided: number;
  last_run_at: Date | null;
  last_seconds: number | null;
  error: string | null;
}

export interface SweepRunner {
  start(): void;
  /** Runs a sweep now; resolves when a run that began after this call is over. */
  nudge(name: string): Promise<void>;
  observe(fact: Evidence): void;
  statuses(): SweepStatus[];
  stop(): Promise<void>;
}

export function createSweepRunner(options: {
  sweeps: Sweep[];
  clock: Clock;
  onError: (name: string, error: unknown) => void;
}): SweepRunner {
  const { clock } = options;
  let stopped = false;

  const drivers = options.sweeps.map((sweep) => {
    const status: SweepStatus = {
      name: sweep.name,
      runs: 0,
      decided: 0,
      last_run_at: null,
      last_seconds: null,
      error: null,
    };
    let running: Promise<void> | undefined;
    let again: Promise<void> | undefined;
    let cancelTimer: () => void = () => {};

    const runOnce = async () => {
      cancelTimer();
      const startedMs = clock.monotonicMs();
      try {
        for (let more = true; more && !stopped; ) {
          const report = await sweep.run(now(clock));
          status.decided += report.decided;
          more = report.more ?? false;
        }
        status.error = null;
      } catch (error) {
        // One failing sweep never stops the others, nor its own next run.
        status.error = error instanceof Error ? error.message : String(error);
        options.onError(sweep.name, error);
      }
      status.runs++;
      status.last_run_at = now(clock);
      status.last_seconds = (clock.monotonicMs() - startedMs) / 1000;
      if (!stopped) cancelTimer = clock.after(sweep.every_seconds * 1000, () => void trigger());
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

    return {
      sweep,
      status,
      trigger,
      settle: async () => {
        cancelTimer();
        await running;
      },
    };
  });

  return {
    start() {
      for (const driver of drivers) void driver.trigger();
    },
    async nudge(name) {
      await drivers.find((driver) => driver.sweep.name === name)?.trigger();
    },
    observe(fact) {
      for (const driver of drivers) if (driver.sweep.woken_by?.(fact.kind)) void driver.trigger();
    },
    statuses: () => drivers.map((driver) => ({ ...driver.status })),
    async stop() {
      stopped = true;
      await Promise.all(drivers.map((driver) => driver.settle()));
    },
  };
}
