/** What a bulk recovery says of itself: while it goes on, and when it stops. */
import type { ProgressPart } from '../../contract/progress.ts';
import type { RecoveryPhase } from '../../lifecycle/actions/recovery.ts';
import type { Tally, TargetRow } from '../../store/operations/recoveries.ts';

const totalOf = (tally: Tally) => tally.waiting + tally.acting + tally.recovered + tally.failed + tally.skipped;

export function progressWords(phase: RecoveryPhase, tally: Tally): string {
  const passed = tally.skipped > 0 ? `, ${tally.skipped} passed over` : '';
  const so_far = `${tally.recovered} of ${totalOf(tally)} recovered, ${tally.failed} failed${passed}`;
  return phase === 'canary' ? `${so_far}; the rest waits for the canary` : `${so_far}, canary held`;
}

const shown: { state: keyof Tally; word: string; tone: ProgressPart['tone'] }[] = [
  { state: 'recovered', word: 'recovered', tone: 'ok' },
  { state: 'failed', word: 'failed', tone: 'bad' },
  { state: 'acting', word: 'under way', tone: 'busy' },
  { state: 'waiting', word: 'waiting', tone: 'idle' },
  { state: 'skipped', word: 'left untouched', tone: 'idle' },
];

export const progressParts = (tally: Tally): ProgressPart[] =>
  shown
    .filter(({ state }) => tally[state] > 0)
    .map(({ state, word, tone }) => ({ name: 'targets', kind: 'recovery', state: word, tone, count: tally[state] }));

/** So many failures are told of by name; a reader who needs more reads the timeline. */
export const mostNamed = 5;

const nameOf = ({ allocation_id, node_id }: TargetRow) => allocation_id ?? node_id ?? 'a target';

function named(failed: TargetRow[], count: number): string {
  const told = failed.map((target) => `${nameOf(target)}: ${target.reason ?? 'no reason was given'}`);
  const more = count - failed.length;
  return told.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

export function stopWords(phase: RecoveryPhase, tally: Tally, failed: TargetRow[]): string {
  const untouched = tally.waiting + tally.skipped;
  const why = phase === 'canary' ? 'the canary failed' : `stopped after ${tally.failed} failures`;
  return `${why}, ${untouched} left untouched: ${named(failed, tally.failed)}`;
}

/** `told` are those that failed, or, where none did, those that were passed over. */
export const incompleteWords = (tally: Tally, told: TargetRow[]): string =>
  tally.failed > 0
    ? `${tally.recovered} of ${totalOf(tally)} recovered, ${tally.failed} failed: ${named(told, tally.failed)}`
    : `none of ${totalOf(tally)} could be acted on: ${named(told, tally.skipped)}`;
