/**
 * A cluster is recorded before it is requested. The process may die before the answer, and Azure
 * may show the cluster late: a successor that looks at once would see nothing and call it absent.
 */
import type { DriverState } from '../../driver.ts';

/** How long after its record a request may be sent. */
const sent_within_ms = 10_000;
/**
 * How long after its record an invisible cluster is not taken for absent; a request has timed out
 * by then.
 */
const shown_within_ms = 40_000;

const age = ({ asked_at_ms }: DriverState, now_ms: number) =>
  typeof asked_at_ms === 'number' ? now_ms - asked_at_ms : Number.POSITIVE_INFINITY;

export const isRecorded = (state: DriverState, now_ms: number): boolean => age(state, now_ms) < sent_within_ms;

export const mayStillAppear = (state: DriverState, now_ms: number): boolean => age(state, now_ms) < shown_within_ms;
