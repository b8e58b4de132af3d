/**
 * Finds exact secret values in a text. A short part of each value is the keyword of the scan and the rest is compared afterwards, so
 * memory grows with the number of values and not with their length.
 */
import { createKeywordScan } from './keyword-scan.ts';

const keywordLength = 12;

/** The longest part of a literal that JSON writes as it is; empty where there is none. */
const plainPart = (literal: string): string =>
  (literal.match(/[ !#-[\]-~]+/g) ?? []).reduce((longest, part) => (part.length > longest.length ? part : longest), '');

/** From the middle: keys and certificates of one kind begin and end alike. */
function keywordOf(literal: string): string {
  const part = plainPart(literal);
  const start = Math.max(0, Math.floor((part.length - keywordLength) / 2));
  return part.slice(start, start + keywordLength);
}

/** A value as it is, and as it stands inside JSON. */
const formsOf = (literal: string): string[] => [...new Set([literal, JSON.stringify(literal).slice(1, -1)])];

/** Returns what replaces the literals that a text may hold; undefined where it holds none, or where there are none at all. */
export function createLiteralSearch(
  literals: readonly string[],
  mark: string,
): ((text: string) => ((text: string) => string) | undefined) | undefined {
  // A part of the mark would be replaced in what was replaced already.
  const known = [...new Set(literals)].filter((literal) => literal !== '' && !mark.includes(literal));
  if (known.length === 0) return undefined;
  const byKeyword = Map.groupBy(known, (literal) => keywordOf(literal).toLowerCase());
  // A literal without a searchable part may be anywhere.
  const anywhere = byKeyword.get('') ?? [];
  byKeyword.delete('');
  const groups = [...byKeyword.values()];
  const scan = createKeywordScan([...byKeyword.keys()].map((keyword) => [keyword]));
  return (text) => {
    const hits = scan(text);
    if (!hits && anywhere.length === 0) return undefined;
    const suspects = [...anywhere, ...(hits ?? []).flatMap((group) => groups[group] ?? [])];
    // The longest first: one may be a part of another.
    const forms = suspects.flatMap(formsOf).sort((a, b) => b.length - a.length);
    return (given) => forms.reduce((left, form) => (left.includes(form) ? left.replaceAll(form, mark) : left), given);
  };
}
