/**
 * Finds exact secret values in a text. The scan uses a short part of each value as keyword and
 * compares the rest afterwards, so memory grows with the number of values, not with their length.
 */
import { createKeywordScan } from './keyword-scan.ts';

const keywordLength = 12;

/** The longest part of a literal that JSON does not escape; may be empty. */
const plainPart = (literal: string): string =>
  (literal.match(/[ !#-[\]-~]+/g) ?? []).reduce((longest, part) => (part.length > longest.length ? part : longest), '');

/** Taken from the middle: keys and certificates of one kind start and end alike. */
function keywordOf(literal: string): string {
  const part = plainPart(literal);
  const start = Math.max(0, Math.floor((part.length - keywordLength) / 2));
  return part.slice(start, start + keywordLength);
}

/** A value as is, and as escaped in JSON. */
const formsOf = (literal: string): string[] => [...new Set([literal, JSON.stringify(literal).slice(1, -1)])];

/**
 * Returns a replacement of the literals that a text may hold; undefined if it holds none, or if
 * there are no literals.
 */
export function createLiteralSearch(
  literals: readonly string[],
  mark: string,
): ((text: string) => ((text: string) => string) | undefined) | undefined {
  // A literal that is part of the mark would match inside earlier replacements.
  const known = [...new Set(literals)].filter((literal) => literal !== '' && !mark.includes(literal));
  if (known.length === 0) return undefined;
  const byKeyword = Map.groupBy(known, (literal) => keywordOf(literal).toLowerCase());
  // A literal without a searchable part is always compared.
  const anywhere = byKeyword.get('') ?? [];
  byKeyword.delete('');
  const groups = [...byKeyword.values()];
  const scan = createKeywordScan([...byKeyword.keys()].map((keyword) => [keyword]));
  return (text) => {
    const hits = scan(text);
    if (!hits && anywhere.length === 0) return undefined;
    const suspects = [...anywhere, ...(hits ?? []).flatMap((group) => groups[group] ?? [])];
    // Longest first: one literal may be part of another.
    const forms = suspects.flatMap(formsOf).sort((a, b) => b.length - a.length);
    return (given) => forms.reduce((left, form) => (left.includes(form) ? left.replaceAll(form, mark) : left), given);
  };
}
