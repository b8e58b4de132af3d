/** Describes what a recovery would retry. Pure. */

interface Matched {
  matched: number;
  eligible: number;
  not_eligible: readonly { why_not: string; count: number }[];
  first: readonly string[];
}

const maxNamed = 3;

const allocations = (count: number) => (count === 1 ? '1 allocation' : `${count} allocations`);

export function matchedWords(
  { matched, eligible, not_eligible, first }: Matched,
  nameOf: (id: string) => string,
): string {
  if (matched === 0) return 'Nothing to recover.';
  const skipped = not_eligible.map(({ why_not, count }) => ` ${count} skipped: ${why_not}`).join('');
  if (eligible === 0) return `Nothing can be recovered now.${skipped}`;
  const named = first.slice(0, maxNamed).map(nameOf).join(', ');
  const more = eligible - Math.min(maxNamed, first.length);
  return `${allocations(eligible)}; first ${named}${more > 0 ? ` and ${more} more` : ''}.${skipped}`;
}

interface Pace {
  canary: number;
  per_minute: number;
  stop_after_failures: number;
}

export const paceWords = ({ canary, per_minute, stop_after_failures }: Pace): string =>
  `Canary ${canary}, then at most ${per_minute} a minute, until ${stop_after_failures} failed.`;
