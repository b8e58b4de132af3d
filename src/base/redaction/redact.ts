/**
 * Strikes secrets out of what is kept or shown: evidence, log lines, attachments. What it does to a text depends on that text and on
 * the literals it has learned, so redacting the same words twice, or in two places, gives the same words.
 */

import { followKeyLines } from './key-lines.ts';
import { createKeywordScan } from './keyword-scan.ts';
import { createLiteralSearch } from './literals.ts';
import { type Pattern, patterns } from './patterns.ts';
import { everyNameKeyword, isPluralName, isSecretName } from './secret-names.ts';

export { isSecretName };

export const struckOut = '[struck out]';

export interface Redactor {
  /** One text: a log line, a summary, an attachment. */
  text(text: string): string;
  /** Every text in plain data, and whatever stands under a name that says it is secret. */
  value<T>(value: T): T;
  /** The same for data that is written out as JSON already; cheap where there is nothing to strike out. */
  json(text: string): string;
  /** Whether a text, or data written as JSON, may hold a secret. False positives are possible, false negatives are not. */
  mayContain(text: string): boolean;
}

/** A redactor that is told of further secrets while it is in use. */
export interface LearningRedactor extends Redactor {
  /** Adds to the literals. They stay known: what was replaced since may still be printed. */
  learn(literals: readonly string[]): void;
  /** A redactor with the same rules that knows none of the learned literals. */
  withoutLearned(): LearningRedactor;
}

/** Replaces what one rule finds in a text. */
type Strike = (text: string) => string;

/** The replacements that may apply to a text, in their order; undefined where none does. */
type Search = (text: string) => readonly Strike[] | undefined;

const strikeOf =
  ({ find, leaves = '', ends = '' }: Pattern): Strike =>
  (text) =>
    text.replaceAll(find, `${leaves}${struckOut}${ends}`);

const strikes = patterns.map(strikeOf);

/** Made once: it takes milliseconds, and some redactors live only for one message. Names are no pattern and come last. */
const scanBuiltIn = createKeywordScan([...patterns.map(({ keywords }) => keywords), everyNameKeyword]);

const withoutKeyword = patterns
  .filter(({ keywords }) => keywords.length === 0)
  .map((pattern) => ({ find: pattern.find, strike: strikeOf(pattern) }));

const searchBuiltIn: Search = (text) => {
  const hits = scanBuiltIn(text)?.flatMap((owner) => strikes[owner] ?? []);
  // `search` keeps no place between calls, whatever the flags.
  const others = withoutKeyword.filter(({ find }) => text.search(find) >= 0).map(({ strike }) => strike);
  return hits === undefined && others.length === 0 ? undefined : [...others, ...(hits ?? [])];
};

function searchWith(expressions: readonly string[], literals: readonly string[]): Search {
  const searchLiterals = createLiteralSearch(literals, struckOut);
  if (!searchLiterals && expressions.length === 0) return searchBuiltIn;
  const own = expressions.map((source) => strikeOf({ find: new RegExp(source, 'g'), keywords: [] }));
  return (text) => {
    const literal = searchLiterals?.(text);
    const builtIn = searchBuiltIn(text);
    if (own.length === 0 && !literal) return builtIn;
    return [...own, ...(literal ? [literal] : []), ...(builtIn ?? [])];
  };
}

/** Keys made of plain words are field names. Any other key is treated as text, since a machine may have chosen it. */
const isFieldName = (name: string): boolean => name.length <= 40 && /^[a-z]+(?:_[a-z]+)*$/.test(name);

/** `expressions` are the installation's own; `literals` are secrets that this process knows by heart. */
export function createRedactor(
  expressions: readonly string[] = [],
  literals: readonly string[] = [],
): LearningRedactor {
  const known = new Set(literals);
  let search = searchWith(expressions, literals);

  const text = (given: string): string => {
    const suspects = search(given);
    if (!suspects) return given;
    return suspects.reduce((left, strike) => strike(left), given);
  };

  const secret = (name: string, value: unknown): unknown => {
    if (typeof value === 'string') return struckOut;
    if (typeof value === 'number') return isPluralName(name) ? value : struckOut;
    return Array.isArray(value) ? value.map((each) => secret(name, each)) : walk(value);
  };
  const under = (name: string, value: unknown): unknown => (isSecretName(name) ? secret(name, value) : walk(value));
  /** Lines in their order may hold a key that none of them shows to be one; a flag says what the next word is. */
  const list = (values: readonly unknown[]): unknown[] => {
    const keys = followKeyLines(undefined, struckOut);
    return values.map((value, at) => {
      if (typeof value === 'string')
        return keys.isInside('', value) || (isSecretFlag(values[at - 1]) && !value.startsWith('-'))
          ? struckOut
          : text(value);
      if (typeof value !== 'object' || value === null || !('line' in value)) return walk(value);
      const { line, stream = '' } = value as { line: unknown; stream?: unknown };
      return typeof line === 'string' && keys.isInside(String(stream), line)
        ? walk({ ...value, line: struckOut })
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
      // Marked as known only once the search finds them: after a failure the caller can try again.
      search = searchWith(expressions, [...known, ...fresh]);
      for (const literal of fresh) known.add(literal);
    },
    withoutLearned: () => createRedactor(expressions, literals),
  };
}

/** A word of a command line that names a secret: the next word is its value. */
const isSecretFlag = (word: unknown): boolean =>
  typeof word === 'string' && /^--?[a-z][\w-]{0,127}$/i.test(word) && isSecretName(word);

/** What every installation strikes out. */
export const builtInRedactor: Redactor = createRedactor();
