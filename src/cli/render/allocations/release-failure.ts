/** A failed release as text: the step, the owner, and the next try. */
import type { Allocation } from '../../../contract/allocation.ts';
import { age, elapsed, relative, secondsSince } from '../text/duration.ts';
import { printable } from '../text/text.ts';

export interface ReleaseFailure {
  step: string | null;
  owner_layer: string;
  message: string;
}

/** The fields that an allocation and an explanation share, and where each has the failed step. */
export type FailedRelease = Pick<
  Allocation,
  'allocation_id' | 'status' | 'status_since' | 'reason' | 'owner_layer' | 'release_tries' | 'retry_at'
> & {
  progress?: Allocation['progress'];
  failure?: ReleaseFailure | null;
};

export const isReleaseFailed = (holder: Pick<Allocation, 'status'> | null | undefined): boolean =>
  holder?.status === 'release_failed';

/** A release that timed out, and older servers, give only the reason. */
function whereAndWhy({ progress, failure = progress?.error, reason, owner_layer }: FailedRelease): {
  step: string | null;
  owner: string;
  text: string;
} {
  const owner = failure?.owner_layer ?? owner_layer;
  return {
    step: failure?.step ?? null,
    owner: owner ? ` (owner ${owner})` : '',
    text: printable(failure?.message ?? reason ?? 'no reason was given'),
  };
}

const ended = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

/** `Slipway retries it in 4m 31s (try 2).` */
export function nextTrySentence({ retry_at, release_tries }: FailedRelease, nowMs: number): string | null {
  if (retry_at === null) return null;
  const left = -secondsSince(retry_at, nowMs);
  return `Slipway retries it ${left >= 1 ? `in ${elapsed(left)}` : 'now'} (try ${release_tries + 1}).`;
}

export function failedReleaseSentences(failed: FailedRelease, nowMs: number): string {
  const { step, owner, text } = whereAndWhy(failed);
  const at = step === null ? '' : ` at step ${step}`;
  return [
    ended(`Its release failed ${relative(failed.status_since, nowMs)}${at}${owner}: ${text}`),
    nextTrySentence(failed, nowMs),
    'Remove the cause, or run retry-release now.',
  ]
    .filter((part) => part !== null)
    .join(' ');
}

/** For a table: `release failed at clean: …; next try in 4m`. */
export function failedReleaseConcern(failed: FailedRelease, nowMs: number): string {
  const { step, text } = whereAndWhy(failed);
  const why = `release failed${step === null ? '' : ` at ${step}`}: ${text}`;
  if (failed.retry_at === null) return why;
  const left = -secondsSince(failed.retry_at, nowMs);
  return `${why}; next try ${left >= 1 ? `in ${age(left)}` : 'now'}`;
}
