/**
 * Two live processes under one name. A process names itself anew at each start, so one that lost the name and registers again
 * cannot be a restart: it has run all the while. Pure.
 */
import { moment, secondsLater } from '../../base/clock.ts';

/** Which of two live processes keeps the name. */
export const keepNamePolicies = ['first', 'latest'] as const;
export type KeepNamePolicy = (typeof keepNamePolicies)[number];

export interface ClientProcess {
  /** What the process calls itself. */
  process: string;
  /** Where it says it serves, and where its registration came from. */
  endpoint: string | null;
  source: string | null;
  /** Until when it held the name; null for the holder. */
  held_until: string | null;
}

/** A process that has not registered for so long after it lost the name is forgotten. */
const rememberedSeconds = 3600;
/** More processes within that time are not told apart; the next one waits until the holder is silent. */
export const maxProcesses = 16;

export interface ProcessFacts {
  /** In the order in which they first had the name, the holder included. */
  known: readonly ClientProcess[];
  /** The process that registers; null if it does not name itself. */
  claimant: string | null;
  /** The holder beats and has not said goodbye. */
  is_beating: boolean;
  keep: KeepNamePolicy;
}

/**
 * - restart: nothing is known against it
 * - takes_back: it had the name first and runs beside the holder, which loses the name
 * - refused: another process holds the name, is live and keeps it
 * - too_many: so many processes had the name lately that it waits for the holder to fall silent
 */
export type ProcessVerdict = 'restart' | 'takes_back' | 'refused' | 'too_many';

export function judgeProcess({ known, claimant, is_beating, keep }: ProcessFacts): ProcessVerdict {
  const holder = known.findIndex(({ held_until }) => held_until === null);
  if (!is_beating || holder < 0 || known[holder]?.process === claimant) return 'restart';
  // The holder always sends its instance id, so a registration without one is another process.
  if (claimant === null) return keep === 'first' ? 'refused' : 'restart';
  const place = known.findIndex(({ process }) => process === claimant);
  if (place < 0) return known.length < maxProcesses ? 'restart' : 'too_many';
  return keep === 'first' && place < holder ? 'takes_back' : 'refused';
}

/** Without those that lost the name long ago and have not asked for it since. */
export function rememberedProcesses(known: readonly ClientProcess[], now: Date): ClientProcess[] {
  const since = secondsLater(now, -rememberedSeconds);
  return known.filter(({ held_until }) => held_until === null || moment(Date.parse(held_until)) > since);
}

/** The processes to remember once `next` has the name. */
export function withHolder(
  known: readonly ClientProcess[],
  next: Omit<ClientProcess, 'held_until'>,
  now: Date,
): ClientProcess[] {
  const holder = { ...next, held_until: null };
  const former = withoutHolder(known, now);
  if (former.some(({ process }) => process === next.process))
    return former.map((each) => (each.process === next.process ? holder : each));
  if (known.length < maxProcesses) return [...former, holder];
  // The first ones stay, and the last holder: newcomers that each say goodbye at once must not push them out.
  const dropped = known.findLastIndex(({ held_until }) => held_until !== null);
  return [...former.filter((_, index) => index !== dropped), holder];
}

/** The processes to remember once a process that sends no instance id has the name. */
export const withoutHolder = (known: readonly ClientProcess[], now: Date): ClientProcess[] =>
  known.map((each) => ({ ...each, held_until: each.held_until ?? now.toISOString() }));
