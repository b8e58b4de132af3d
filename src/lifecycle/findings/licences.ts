/** Renders the licences of the packages of an installation in one line, for people. */

const shown = 4;

export function licencesText({ packages, counts }: { packages: number; counts: Record<string, number> }): string {
  const sorted = Object.entries(counts).toSorted(([, a], [, b]) => b - a);
  const rest = sorted.slice(shown).reduce((sum, [, count]) => sum + count, 0);
  const parts = sorted.slice(0, shown).map(([licence, count]) => `${count} ${licence}`);
  return `${packages} packages: ${[...parts, ...(rest > 0 ? [`${rest} under other licences`] : [])].join(', ')}`;
}
