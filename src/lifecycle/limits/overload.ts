/**
 * What a replica that has more to do than it can does less of, and in which order. First lists and overviews wait, which may be
 * a little old anyway; then machines are told to beat seldomer. A beat that is put off this way was heard all the same, and
 * what changes a status is never put off. Pure.
 */

/** How hard a replica has it, over the last few seconds. */
export interface ReplicaLoad {
  /** How late its own timers are. */
  loop_lag_ms: number;
  /** How long beats had waited when they were stored. */
  behind_ms: number;
  beats_per_second: number;
  /** What it was set up to hear in a second. */
  beat_rate: number;
}

export interface Shedding {
  reads: boolean;
  beats: boolean;
  /** By which the intervals that machines are told are longer. */
  stretch: number;
}

/** Where strain begins to count, for each: far beyond a moment's work, for what is shed is missed. */
const bearable = { loop_lag_ms: 1_000, behind_ms: 2_000, times_the_rate: 2 };
/** Any machine hears so many with ease: a rate that was set lower makes intervals long, and is no reason to refuse anybody. */
const easyRate = 100;
const shedsReadsFrom = 1;
const shedsBeatsFrom = 2;
/** A fleet that was told to beat much too seldom is judged late for as long as it was told to. */
const mostStretch = 4;

export function pressureOf({ loop_lag_ms, behind_ms, beats_per_second, beat_rate }: ReplicaLoad): number {
  return Math.max(
    loop_lag_ms / bearable.loop_lag_ms,
    behind_ms / bearable.behind_ms,
    beats_per_second / (bearable.times_the_rate * Math.max(beat_rate, easyRate)),
  );
}

export function decideShedding(strain: ReplicaLoad): Shedding {
  const pressure = pressureOf(strain);
  const beats = pressure >= shedsBeatsFrom;
  return { reads: pressure >= shedsReadsFrom, beats, stretch: beats ? Math.min(pressure, mostStretch) : 1 };
}
