/** A release that failed, in words: where and whose problem it is, and when it is tried again. */
import type { Allocation } from '../../../contract/allocation.ts';
import { age, elapsed, relative, secondsSince } from '../text/duration.ts';
import { printable } from '../text/text.ts';

/** What an allocation and an explanation both tell of it. */
export type FailedRelease = Pick<
  Allocation,
  'allocation_id' | 'status' | 'status_since' | 'reason' | 'owner_layer' | 'release_tries' | 'retry_at'
>;

export const isReleaseFailed = (holder: Pick<Allocation, 'status'> | null | undefined): boolean =>
  holder?.status === 'release_failed';

/** The step and its owner are part of the reason, except where no step was reached. */
const failedAt = /^release failed at step (\S+) \(owner (\w+)\): /;

function whereAndWhy({ reason, owner_layer }: FailedRelease): string {
  const text = printable(reason ?? 'no reason was given');
  if (failedAt.test(text)) return text.replace(/^release failed/, '');
  return `${owner_layer ? ` (owner ${owner_layer})` : ''}: ${text}`;
}

const ended = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

/** `It is tried again in 4m 31s (try 2).` */
export function nextTrySentence({ retry_at, release_tries }: FailedRelease, nowMs: number): string | null {
  if (retry_at === null) return null;
  const left = -secondsSince(retry_at, nowMs);
  return `It is tried again ${left >= 1 ? `in ${elapsed(left)}` : 'now'} (try ${release_tries + 1}).`;
}

export const failedReleaseSentences = (failed: FailedRelease, nowMs: number): string =>
  [
    ended(`Its release failed ${relative(failed.status_since, nowMs)}${whereAndWhy(failed)}`),
    nextTrySentence(failed, nowMs),
    'Remove the cause, or retry-release now.',
  ]
    .filter((part) => part !== null)
    .join(' ');

/** In a line of a table: `release failed at clean: …; next try in 4m`. */
export function failedReleaseConcern(failed: FailedRelease, nowMs: number): string {
  const text = printable(failed.reason ?? 'no reason was given');
  const why = failedAt.test(text) ? text.replace(failedAt, 'release failed at $1: ') : `release failed: ${text}`;
  if (failed.retry_at === null) return why;
  const left = -secondsSince(failed.retry_at, nowMs);
  return `${why}; next try ${left >= 1 ? `in ${age(left)}` : 'now'}`;
}
