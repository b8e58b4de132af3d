/**
 * A sweep applies one rule or job to all rows that it concerns. It takes no input, may run on every
 * replica at the same time, and reports its decisions.
 */
import type { Evidence } from '../../contract/evidence/evidence.ts';

export interface SweepReport {
  decided: number;
  /** Verdicts held back by the brake or a maintenance window. */
  held?: number;
  /** Verdicts that were only recorded, for an observe-only pool. */
  would_have?: number;
  /** Delay of each verdict after it became due. */
  lateness_seconds?: number[];
  /** The batch was full, so run again at once. */
  more?: boolean;
  /** Time until the next run, if sooner than usual: when a verdict is due, or after a rest. */
  next_in_seconds?: number;
  /**
   * The sweep decided nothing: this replica is not sure that it receives heartbeats, or the
   * database was restored.
   */
  waiting?: boolean;
}

export interface Sweep {
  name: string;
  /**
   * The longest time between two runs. Evidence may wake the sweep earlier. A getter if it comes
   * from the settings file, which is reloaded.
   */
  every_seconds: number;
  /** Whether evidence of this kind makes the sweep run at once. */
  isWokenBy?: (kind: string) => boolean;
  /** Returns the time at which the sweep should run because of this evidence. */
  dueTimeFrom?: (fact: Evidence) => Date | undefined;
  /**
   * Matches evidence of the sweep's verdicts. Set it if operations write such verdicts too: then
   * evidence is counted instead of the decisions of runs.
   */
  isDecision?: (fact: Evidence) => boolean;
  /** Runs after a restore too: it changes no machine, no status and no allocation. */
  runsAfterRestore?: true;
  run(now: Date): Promise<SweepReport>;
}
