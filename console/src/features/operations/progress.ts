/**
 * Renders the texts of the progress banner. Only `workflow_id`, `status`, `phase` and
 * `elapsed_seconds` are always set. Older drivers and first events lack the other fields, and the
 * banner then shows less.
 */

import type { Progress, ProgressPart } from '../../../../src/contract/progress.ts';
import { humanize } from '../../ui/text.ts';
import { formatElapsed, formatRange, formatRoughly } from '../../ui/time/durations.ts';

export type SparseProgress = Pick<Progress, 'workflow_id' | 'status' | 'phase' | 'elapsed_seconds'> & Partial<Progress>;

const endStatuses: ReadonlySet<Progress['status']> = new Set(['succeeded', 'failed', 'cancelled']);
export const hasEnded = (progress: SparseProgress): boolean => endStatuses.has(progress.status);

export const position = ({ step, total_steps }: SparseProgress): string | null =>
  step && total_steps ? `Step ${Math.min(step, total_steps)}/${total_steps}` : null;

export const labelOf = ({ status, kind, label, phase }: SparseProgress): string =>
  status === 'succeeded' ? `${humanize(kind ?? 'operation')} done` : label || humanize(phase);

/**
 * `agent · registering`, `targets ×3 · under way`, or `systempool · Succeeded · 1n` for a node
 * pool with one node.
 */
export const partWords = ({ kind, name, state, count }: ProgressPart): string => {
  if (count === undefined) return `${name} · ${state}`;
  return kind === 'pool' ? `${name} · ${state} · ${count}n` : `${name} ×${count} · ${state}`;
};

/** Without samples the range is an estimate, so it is not called usual. */
export const usualDuration = ({ expected }: SparseProgress): string | null =>
  expected
    ? `${expected.samples === 0 ? '' : 'usual '}${formatRange(expected.p50_seconds, expected.p90_seconds)}`
    : null;

/** Lists what is known of failure, next try, stall, time left and comparison with earlier runs. */
export function outlook(progress: SparseProgress, since_receipt_seconds: number): string[] {
  if (hasEnded(progress)) return [];
  const { eta_seconds, slower_than, stalled, retry_after_seconds, failing } = progress;
  const words: string[] = [];
  if (failing) {
    const since = failing.seconds === null ? '' : ` for ${formatElapsed(failing.seconds + since_receipt_seconds)}`;
    words.push(`failing${since}${failing.tries > 1 ? ` (${failing.tries} tries)` : ''}`);
  }
  if (typeof retry_after_seconds === 'number') {
    const left = retry_after_seconds - since_receipt_seconds;
    words.push(left >= 1 ? `next try in ${formatElapsed(left)}` : 'trying again');
  }
  if (stalled) words.push('no progress for longer than usual');
  if (typeof eta_seconds === 'number') {
    const left = eta_seconds - since_receipt_seconds;
    words.push(left > 0 ? `about ${formatRoughly(left)} left` : 'later than expected');
  }
  if (typeof slower_than === 'number' && slower_than >= 0.5)
    words.push(`slower than ${Math.floor(slower_than * 100)} % of earlier runs of this step`);
  return words;
}

const highestPercent = new Map<string, number>();
const maxRemembered = 1000;

/**
 * The width of the bar in percent, or null if unknown. It never goes back, even if updates arrive
 * out of order.
 */
export function barPercent(progress: SparseProgress): number | null {
  const { workflow_id, status, percent } = progress;
  const previous = highestPercent.get(workflow_id);
  if (status === 'succeeded') return 100;
  if (typeof percent !== 'number' && previous === undefined) return null;
  const now = Math.max(previous ?? 0, Math.min(100, percent ?? 0));
  if (highestPercent.size > maxRemembered) highestPercent.clear();
  highestPercent.set(workflow_id, now);
  return now;
}
