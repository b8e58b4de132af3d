/**
 * Redacts secrets from everything that is stored or shown: evidence, log lines, attachments. The
 * result depends only on the text and the learned literals, so redacting twice, or in two places,
 * gives the same text.
 */

import { followKeyLines } from './key-lines.ts';
import { createKeywordScan } from './keyword-scan.ts';
import { type Pattern, patterns } from './patterns.ts';
import { everyNameKeyword, isPluralName, isSecretName } from './secret-names.ts';

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
 * Finds exact secret values. The scan uses a short part of each value as keyword and compares the
 * rest afterwards, so memory grows with the number of values, not with their length. Returns a
 * replacement of the literals that a text may hold; undefined if it holds none, or if there are
 * none.
 */
function createLiteralSearch(
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

export { isSecretName };

export const redactionMark = '[struck out]';

export interface Redactor {
  /** Redacts one text: a log line, a summary, an attachment. */
  text(text: string): string;
  /** Redacts every text in plain data, and all values under secret names. */
  value<T>(value: T): T;
  /** The same for JSON text; cheap if there is nothing to redact. */
  json(text: string): string;
  /**
   * Whether a text or JSON may hold a secret. May return false positives, never false negatives.
   */
  mayContain(text: string): boolean;
}

/** A redactor that learns further secrets while in use. */
export interface LearningRedactor extends Redactor {
  /** Adds literals for good: a secret that has been replaced since may still be printed. */
  learn(literals: readonly string[]): void;
  /** A redactor with the same rules and none of the learned literals. */
  withoutLearned(): LearningRedactor;
}

/** Replaces the matches of one rule in a text. */
type Replacement = (text: string) => string;

/** Returns the replacements that may apply to a text, in order; undefined if none does. */
type Search = (text: string) => readonly Replacement[] | undefined;

const replacementOf =
  ({ find, leaves = '', ends = '' }: Pattern): Replacement =>
  (text) =>
    text.replaceAll(find, `${leaves}${redactionMark}${ends}`);

const replacements = patterns.map(replacementOf);

/**
 * Built once: it takes milliseconds, and some redactors live for one message. Name keywords have no
 * pattern and come last.
 */
const scanBuiltIn = createKeywordScan([...patterns.map(({ keywords }) => keywords), everyNameKeyword]);

const withoutKeyword = patterns
  .filter(({ keywords }) => keywords.length === 0)
  .map((pattern) => ({ find: pattern.find, replace: replacementOf(pattern) }));

const searchBuiltIn: Search = (text) => {
  const hits = scanBuiltIn(text)?.flatMap((owner) => replacements[owner] ?? []);
  // Unlike `test`, `search` ignores lastIndex.
  const others = withoutKeyword.filter(({ find }) => text.search(find) >= 0).map(({ replace }) => replace);
  return hits === undefined && others.length === 0 ? undefined : [...others, ...(hits ?? [])];
};

function searchWith(expressions: readonly string[], literals: readonly string[]): Search {
  const searchLiterals = createLiteralSearch(literals, redactionMark);
  if (!searchLiterals && expressions.length === 0) return searchBuiltIn;
  const own = expressions.map((source) => replacementOf({ find: new RegExp(source, 'g'), keywords: [] }));
  return (text) => {
    const literal = searchLiterals?.(text);
    const builtIn = searchBuiltIn(text);
    if (own.length === 0 && !literal) return builtIn;
    return [...own, ...(literal ? [literal] : []), ...(builtIn ?? [])];
  };
}

/**
 * Keys of plain lower-case words are field names. Any other key is redacted like text, since a
 * machine may have chosen it.
 */
const isFieldName = (name: string): boolean => name.length <= 40 && /^[a-z]+(?:_[a-z]+)*$/.test(name);

/** `expressions` are the installation's own; `literals` are exact secrets. */
export function createRedactor(
  expressions: readonly string[] = [],
  literals: readonly string[] = [],
): LearningRedactor {
  const known = new Set(literals);
  let search = searchWith(expressions, literals);

  const text = (given: string): string => {
    const suspects = search(given);
    if (!suspects) return given;
    return suspects.reduce((left, replace) => replace(left), given);
  };

  const secret = (name: string, value: unknown): unknown => {
    if (typeof value === 'string') return redactionMark;
    if (typeof value === 'number') return isPluralName(name) ? value : redactionMark;
    return Array.isArray(value) ? value.map((each) => secret(name, each)) : walk(value);
  };
  const under = (name: string, value: unknown): unknown => (isSecretName(name) ? secret(name, value) : walk(value));
  /** Recognizes a key spread over several lines, and the value after a secret flag. */
  const list = (values: readonly unknown[]): unknown[] => {
    const keys = followKeyLines(undefined, redactionMark);
    return values.map((value, at) => {
      if (typeof value === 'string')
        return keys.isInside('', value) || (isSecretFlag(values[at - 1]) && !value.startsWith('-'))
          ? redactionMark
          : text(value);
      if (typeof value !== 'object' || value === null || !('line' in value)) return walk(value);
      const { line, stream = '' } = value as { line: unknown; stream?: unknown };
      return typeof line === 'string' && keys.isInside(String(stream), line)
        ? walk({ ...value, line: redactionMark })
        : walk(value);
    });
  };
  const walk = (value: unknown): unknown => {
    if (typeof value === 'string') return text(value);
    if (Array.isArray(value)) return list(value);
    if (typeof value !== 'object' || value === null || value instanceof Date) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [isFieldName(name) ? name : text(name), under(name, inner)]),
    );
  };

  return {
    text,
    value: <T>(value: T) => walk(value) as T,
    json: (written) => (search(written) ? JSON.stringify(walk(JSON.parse(written))) : written),
    mayContain: (written) => search(written) !== undefined,
    learn(learned) {
      const fresh = learned.filter((literal) => !known.has(literal));
      if (fresh.length === 0) return;
      // Mark them as known only after the search is built, so that the caller can retry after a
      // failure.
      search = searchWith(expressions, [...known, ...fresh]);
      for (const literal of fresh) known.add(literal);
    },
    withoutLearned: () => createRedactor(expressions, literals),
  };
}

/** A word of a command line after which a secret value follows. */
const isSecretFlag = (word: unknown): boolean =>
  typeof word === 'string' && /^--?[a-z][\w-]{0,127}$/i.test(word) && isSecretName(word);

/** The rules of every installation. */
export const builtInRedactor: Redactor = createRedactor();
