/**
 * Redacts secrets from everything that is stored or shown, such as evidence, log lines and
 * attachments. The result depends only on the text and on the installation's expressions and
 * literals. Redacting twice, or in two places, gives the same text.
 */

import { createKeyLines } from './key-lines.ts';
import { createKeywordScan } from './keyword-scan.ts';
import { type Pattern, patterns } from './patterns.ts';
import { everyNameKeyword, isPluralName, isSecretName } from './secret-names.ts';

const keywordLength = 12;

/** Returns the longest part of a literal that JSON does not escape. The part may be empty. */
const plainPart = (literal: string): string =>
  (literal.match(/[ !#-[\]-~]+/g) ?? []).reduce((longest, part) => (part.length > longest.length ? part : longest), '');

/** Takes a part from the middle, since keys and certificates of one kind start and end alike. */
function keywordOf(literal: string): string {
  const part = plainPart(literal);
  const start = Math.max(0, Math.floor((part.length - keywordLength) / 2));
  return part.slice(start, start + keywordLength);
}

/** Returns the value itself and the value as escaped in JSON. */
const formsOf = (literal: string): string[] => [...new Set([literal, JSON.stringify(literal).slice(1, -1)])];

/**
 * Finds exact secret values by a short part of each, so that memory grows with their number and not
 * with their length. The search returns a function that replaces the literals that a text may hold,
 * or undefined if it holds none.
 */
function createLiteralSearch(
  literals: readonly string[],
  mark: string,
): ((text: string) => ((text: string) => string) | undefined) | undefined {
  // A literal that is part of the mark would match inside earlier replacements.
  const searchable = [...new Set(literals)].filter((literal) => literal !== '' && !mark.includes(literal));
  if (searchable.length === 0) return undefined;
  const byKeyword = Map.groupBy(searchable, (literal) => keywordOf(literal).toLowerCase());
  // A literal without a searchable part is always compared.
  const withoutKeywordPart = byKeyword.get('') ?? [];
  byKeyword.delete('');
  const groups = [...byKeyword.values()];
  const scan = createKeywordScan([...byKeyword.keys()].map((keyword) => [keyword]));
  return (text) => {
    const hits = scan(text);
    if (!hits && withoutKeywordPart.length === 0) return undefined;
    const suspects = [...withoutKeywordPart, ...(hits ?? []).flatMap((group) => groups[group] ?? [])];
    // Replace the longest first, since one literal may be part of another.
    const forms = suspects.flatMap(formsOf).sort((a, b) => b.length - a.length);
    return (original) =>
      forms.reduce((result, form) => (result.includes(form) ? result.replaceAll(form, mark) : result), original);
  };
}

export { isSecretName };

export const redactionMark = '[struck out]';

export interface Redactor {
  /** Redacts one text: a log line, a summary, an attachment. */
  text(text: string): string;
  /** Redacts every text in plain data, and all values under secret names. */
  value<T>(value: T): T;
  /** Redacts JSON text like `value`. Cheap if there is nothing to redact. */
  json(text: string): string;
  /**
   * Whether a text or JSON may hold a secret. May return false positives, never false negatives.
   */
  mayContain(text: string): boolean;
}

/** A redactor that learns further secrets while in use. */
export interface LearningRedactor extends Redactor {
  /** Adds literals that are never removed: a replaced secret may still be printed. */
  learn(literals: readonly string[]): void;
  /** A redactor with the same rules and none of the learned literals. */
  withoutLearned(): LearningRedactor;
}

/** Replaces the matches of one rule in a text. */
type Replacement = (text: string) => string;

/** Returns the replacements that may apply to a text, in order; undefined if none does. */
type Search = (text: string) => readonly Replacement[] | undefined;

const replacementOf =
  ({ find, before = '', after = '' }: Pattern): Replacement =>
  (text) =>
    text.replaceAll(find, `${before}${redactionMark}${after}`);

const replacements = patterns.map(replacementOf);

/**
 * Built only once, since it takes milliseconds and some redactors live for one message. The
 * keywords of secret names come last and have no pattern: a hit makes `json` check field names.
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
  const ownReplacements = expressions.map((source) => replacementOf({ find: new RegExp(source, 'g'), keywords: [] }));
  return (text) => {
    const literal = searchLiterals?.(text);
    const builtIn = searchBuiltIn(text);
    if (ownReplacements.length === 0 && !literal) return builtIn;
    return [...ownReplacements, ...(literal ? [literal] : []), ...(builtIn ?? [])];
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

  const text = (original: string): string => {
    const suspects = search(original);
    if (!suspects) return original;
    return suspects.reduce((result, replace) => replace(result), original);
  };

  const redactSecret = (name: string, value: unknown): unknown => {
    if (typeof value === 'string') return redactionMark;
    if (typeof value === 'number') return isPluralName(name) ? value : redactionMark;
    return Array.isArray(value) ? value.map((each) => redactSecret(name, each)) : walk(value);
  };
  const redactField = (name: string, value: unknown): unknown =>
    isSecretName(name) ? redactSecret(name, value) : walk(value);
  /** Recognizes a key spread over several lines, and the value after a secret flag. */
  const redactList = (values: readonly unknown[]): unknown[] => {
    const keys = createKeyLines(undefined, redactionMark);
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
    if (Array.isArray(value)) return redactList(value);
    if (typeof value !== 'object' || value === null || value instanceof Date) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [isFieldName(name) ? name : text(name), redactField(name, inner)]),
    );
  };

  return {
    text,
    value: <T>(value: T) => walk(value) as T,
    json: (jsonText) => (search(jsonText) ? JSON.stringify(walk(JSON.parse(jsonText))) : jsonText),
    mayContain: (original) => search(original) !== undefined,
    learn(learned) {
      const newLiterals = learned.filter((literal) => !known.has(literal));
      if (newLiterals.length === 0) return;
      // Add the literals only after the search is built, so that the caller can retry after a
      // failure.
      search = searchWith(expressions, [...known, ...newLiterals]);
      for (const literal of newLiterals) known.add(literal);
    },
    withoutLearned: () => createRedactor(expressions, literals),
  };
}

/** True for a flag of a command line that is followed by a secret value. */
const isSecretFlag = (word: unknown): boolean =>
  typeof word === 'string' && /^--?[a-z][\w-]{0,127}$/i.test(word) && isSecretName(word);

/** Has the rules of every installation, and no literals. */
export const builtInRedactor: Redactor = createRedactor();
