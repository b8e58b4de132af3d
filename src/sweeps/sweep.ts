/** A sweep is one rule applied to every row it concerns. It takes no input, may run on every replica at once, and says what it decided. */
export interface SweepReport {
  decided: number;
  /** More is due than one bounded batch: run again at once. */
  more?: boolean;
}

export interface Sweep {
  name: string;
  /** At the latest this long after the last run; evidence wakes it sooner. */
  every_seconds: number;
  /** Kinds of evidence after which it may have something to do. */
  woken_by?: (kind: string) => boolean;
  run(now: Date): Promise<SweepReport>;
}
