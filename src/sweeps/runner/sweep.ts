/** A sweep is one rule applied to every row it concerns. It takes no input, may run on every replica at once, and says what it decided. */
import type { Evidence } from '../../contract/evidence/evidence.ts';

export interface SweepReport {
  decided: number;
  /** Verdicts that the brake or a maintenance window keeps back. */
  held?: number;
  /** Verdicts that an observed pool was only told of. */
  would_have?: number;
  /** How long after it could have been decided each verdict was. */
  lateness_seconds?: number[];
  /** More is due than one bounded batch: run again at once. */
  more?: boolean;
  /** When something falls due next, if that is sooner than the usual time. */
  next_in_seconds?: number;
  /** It did not decide, because this replica is not sure of its own hearing. */
  waiting?: boolean;
}

export interface Sweep {
  name: string;
  /** At the latest this long after the last run; evidence wakes it sooner. */
  every_seconds: number;
  /** Kinds of evidence after which it may have something to do. */
  woken_by?: (kind: string) => boolean;
  /** What a fact says about when there will be something to do; then it runs at that time, and not before. */
  due_by?: (fact: Evidence) => Date | undefined;
  /** Its verdicts, where operations write them as well: then they are counted by the facts, and not by its runs. */
  decided_by?: (fact: Evidence) => boolean;
  run(now: Date): Promise<SweepReport>;
}
