/** Renders a failed release: the step, the owner, and the next try. */
import type { Allocation } from '../../../contract/allocation.ts';
import { formatAge, formatElapsed, formatRelative, secondsSince } from '../text/duration.ts';
import { endSentence, printable } from '../text/text.ts';

export interface ReleaseFailure {
  step: string | null;
  owner_layer: string;
  message: string;
}

/**
 * The fields that an allocation and an explanation share. An allocation has the failed step in
 * `progress`, an explanation in `failure`.
 */
export type FailedRelease = Pick<
  Allocation,
  'allocation_id' | 'status' | 'status_since' | 'reason' | 'owner_layer' | 'release_tries' | 'retry_at'
> & {
  progress?: Allocation['progress'];
  failure?: ReleaseFailure | null;
};

export const isReleaseFailed = (holder: Pick<Allocation, 'status'> | null | undefined): boolean =>
  holder?.status === 'release_failed';

/** Only the reason is known if the release timed out, or if the server is older. */
function failureDetails({ progress, failure = progress?.error, reason, owner_layer }: FailedRelease): {
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

/** `Slipway retries the release in 4m 31s (try 2).` */
export function nextTrySentence({ retry_at, release_tries }: FailedRelease, nowMs: number): string | null {
  if (retry_at === null) return null;
  const secondsLeft = -secondsSince(retry_at, nowMs);
  return `Slipway retries the release ${secondsLeft >= 1 ? `in ${formatElapsed(secondsLeft)}` : 'now'} (try ${release_tries + 1}).`;
}

export function failedReleaseSentences(failed: FailedRelease, nowMs: number): string {
  const { step, owner, text } = failureDetails(failed);
  const at = step === null ? '' : ` at step ${step}`;
  return [
    endSentence(`Its release failed ${formatRelative(failed.status_since, nowMs)}${at}${owner}: ${text}`),
    nextTrySentence(failed, nowMs),
    'Remove the cause, or run retry-release now.',
  ]
    .filter((part) => part !== null)
    .join(' ');
}

/** For a table: `release failed at clean: …; next try in 4m`. */
export function failedReleaseConcern(failed: FailedRelease, nowMs: number): string {
  const { step, text } = failureDetails(failed);
  const why = `release failed${step === null ? '' : ` at ${step}`}: ${text}`;
  if (failed.retry_at === null) return why;
  const secondsLeft = -secondsSince(failed.retry_at, nowMs);
  return `${why}; next try ${secondsLeft >= 1 ? `in ${formatAge(secondsLeft)}` : 'now'}`;
}
