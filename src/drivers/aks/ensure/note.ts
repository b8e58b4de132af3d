/**
 * A cluster is noted before it is asked for. Whoever asked may have died before the answer, and Azure may show what it took a little
 * late: a successor that looks at once would see nothing, and call that absence.
 */
import type { DriverState } from '../../driver.ts';

/** So long after its note a request may still be sent. */
const sent_within_ms = 10_000;
/** So long after its note nothing that is not visible is taken for absent; a request that was sent has been given up by then. */
const shown_within_ms = 40_000;

const age = ({ asked_at_ms }: DriverState, now_ms: number) =>
  typeof asked_at_ms === 'number' ? now_ms - asked_at_ms : Number.POSITIVE_INFINITY;

export const isNoted = (state: DriverState, now_ms: number): boolean => age(state, now_ms) < sent_within_ms;

export const mayStillShow = (state: DriverState, now_ms: number): boolean => age(state, now_ms) < shown_within_ms;
