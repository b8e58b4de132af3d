/** What a recovery would take hold of, in words. Pure. */

interface Matched {
  matched: number;
  first: readonly string[];
}

const mostNamed = 3;

export function matchedWords({ matched, first }: Matched, nameOf: (id: string) => string): string {
  if (matched === 0) return 'Nothing to recover: nothing fits.';
  const named = first.slice(0, mostNamed).map(nameOf).join(', ');
  const more = matched - Math.min(mostNamed, first.length);
  return `${matched === 1 ? '1 allocation' : `${matched} allocations`}; first ${named}${more > 0 ? ` and ${more} more` : ''}.`;
}

interface Pace {
  canary: number;
  per_minute: number;
  stop_after_failures: number;
}

/** As the command line says it. */
export const paceWords = ({ canary, per_minute, stop_after_failures }: Pace): string =>
  `Canary ${canary}, then at most ${per_minute} a minute, until ${stop_after_failures} failed.`;
