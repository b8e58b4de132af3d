/**
 * A sweep applies one rule to every row it concerns. It takes no input, may run on every replica at
 * once, and reports its decisions.
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
  /** More is due than one batch: run again at once. */
  more?: boolean;
  /** When the next verdict is due, if before the usual time. */
  next_in_seconds?: number;
  /** It did not decide, because this replica is not sure that it receives heartbeats. */
  waiting?: boolean;
}

export interface Sweep {
  name: string;
  /** The longest time between two runs; evidence wakes it sooner. */
  every_seconds: number;
  /** Kinds of evidence that may give it something to do. */
  woken_by?: (kind: string) => boolean;
  /** Returns when evidence gives it something to do; it then runs at that time, and not before. */
  due_by?: (fact: Evidence) => Date | undefined;
  /**
   * Matches its verdicts if operations write them too: they are then counted by evidence, not by
   * its runs.
   */
  decided_by?: (fact: Evidence) => boolean;
  run(now: Date): Promise<SweepReport>;
}
