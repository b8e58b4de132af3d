/**
 * Detects two live processes under one name. A process picks a new id at each start. If a process
 * that lost the name registers again under its old id, it was not restarted: it still runs.
 */
import { moment, secondsLater } from '../../base/clock.ts';

/** Which of two live processes keeps the name. */
export const keepNamePolicies = ['first', 'latest'] as const;
export type KeepNamePolicy = (typeof keepNamePolicies)[number];

export interface ClientProcess {
  /** The id that the process picked. */
  process: string;
  /** The address it reports, and the source address of its registration. */
  endpoint: string | null;
  source: string | null;
  /** When it lost the name; null for the holder. */
  held_until: string | null;
}

/** A process is forgotten this long after it lost the name, even if it registers in between. */
const rememberedSeconds = 3600;
/** With this many known processes, a new process must wait until the holder is silent. */
export const maxProcesses = 16;

export interface ProcessFacts {
  /** In the order in which they first had the name, including the holder. */
  known: readonly ClientProcess[];
  /** The registering process; null if it sends no id. */
  claimant: string | null;
  /** The holder sends heartbeats and has not said goodbye. */
  is_beating: boolean;
  keep: KeepNamePolicy;
}

/**
 * - restart: the process gets the name; no other live process is known to use it
 * - takes_back: the process had the name first and still runs, so the holder loses the name
 * - refused: another live process holds and keeps the name
 * - too_many: too many processes had the name recently, so the process must wait until the holder
 *   is silent
 */
export type ProcessVerdict = 'restart' | 'takes_back' | 'refused' | 'too_many';

export function judgeProcess({ known, claimant, is_beating, keep }: ProcessFacts): ProcessVerdict {
  const holder = known.findIndex(({ held_until }) => held_until === null);
  if (!is_beating || holder < 0 || known[holder]?.process === claimant) return 'restart';
  // The holder sends its id with every registration, so one without an id is another process.
  if (claimant === null) return keep === 'first' ? 'refused' : 'restart';
  const place = known.findIndex(({ process }) => process === claimant);
  if (place < 0) return known.length < maxProcesses ? 'restart' : 'too_many';
  return keep === 'first' && place < holder ? 'takes_back' : 'refused';
}

/** Drops the processes that lost the name too long ago. */
export function dropForgottenProcesses(known: readonly ClientProcess[], now: Date): ClientProcess[] {
  const since = secondsLater(now, -rememberedSeconds);
  return known.filter(({ held_until }) => held_until === null || moment(Date.parse(held_until)) > since);
}

/** Returns the processes to remember once `next` has the name. */
export function addHolder(
  known: readonly ClientProcess[],
  next: Omit<ClientProcess, 'held_until'>,
  now: Date,
): ClientProcess[] {
  const holder = { ...next, held_until: null };
  const former = clearHolder(known, now);
  if (former.some(({ process }) => process === next.process))
    return former.map((each) => (each.process === next.process ? holder : each));
  if (known.length < maxProcesses) return [...former, holder];
  // Drops the latest former holder. A series of short-lived newcomers must not evict the first
  // processes or the last holder.
  const droppedIndex = known.findLastIndex(({ held_until }) => held_until !== null);
  return [...former.filter((_, index) => index !== droppedIndex), holder];
}

/** Returns the processes to remember once a process without an id has the name. */
export const clearHolder = (known: readonly ClientProcess[], now: Date): ClientProcess[] =>
  known.map((each) => ({ ...each, held_until: each.held_until ?? now.toISOString() }));
