/** Renders a restoration: its state, and the machines that differ from the restored rows. */
import type { RestorationDifference, RestorationState } from '../../../contract/supervision/restoration.ts';
import { differenceCatalogue, restoredDifferenceKinds } from '../../../lifecycle/findings/restored-differences.ts';
import { formatMoment } from '../text/duration.ts';
import type { RenderContext } from '../text/hints.ts';
import { type Column, renderFacts } from '../text/table.ts';
import { formatCount, wrap } from '../text/text.ts';

export const restorationColumns: Column<RestorationDifference>[] = [
  { title: 'DIFFERENCE', value: ({ kind }) => differenceCatalogue[kind].title },
  { title: 'MACHINE', value: ({ subject }) => subject },
  { title: 'SEEN', value: ({ seen }) => seen, drop: 6 },
];

export function restorationLines({ observing, newest }: RestorationState, context: RenderContext): string[] {
  const { paint, width, nowMs } = context;
  if (!newest) return ['The database was never restored.'];
  const momentOr = (at: string | null, otherwise: string) => (at === null ? otherwise : formatMoment(at, nowMs));
  const state = observing
    ? `${paint('bad', '✖')} ${paint('strong', 'The database was restored, so the servers only observe')}`
    : `${paint('good', '✔')} ${paint('strong', 'The servers act')}; the restoration has ended`;
  const facts = renderFacts(
    [
      ['restored', formatMoment(newest.began_at, nowMs)],
      ['rows until', momentOr(newest.remembers_until, 'unknown')],
      ['machines inspected', momentOr(newest.inspected_at, 'not all yet')],
      ...(newest.ended_at === null ? [] : [['ended', formatMoment(newest.ended_at, nowMs)] as [string, string]]),
    ],
    context,
  );
  const differing = restoredDifferenceKinds.filter((kind) => newest.differences[kind] > 0);
  const lines = differing.flatMap((kind) => {
    const { title, means, remedy } = differenceCatalogue[kind];
    const heading = `${paint('strong', title)}: ${formatCount(newest.differences[kind], 'machine')}`;
    // The remedies say what the end of the restoration will do.
    const text = observing ? `${means} ${remedy}` : means;
    return [heading, ...wrap(text, width - 2).map((line) => `  ${line}`)];
  });
  const next = observing
    ? [
        '',
        'Each machine: slipway restoration list',
        'Let the servers act again: slipway restoration end --reason …',
        ...(newest.differences.maybe_used > 0 ? ['Nothing was allocated after the backup: add --trust-free'] : []),
        ...(newest.differences.unconfirmed > 0
          ? ['No unconfirmed machine changed hands: add --trust-unconfirmed']
          : []),
      ]
    : [];
  return [state, ...facts, '', ...(lines.length > 0 ? lines : ['No machine differs from its row.']), ...next];
}
