/**
 * Strikes secrets out of what is kept or shown: evidence, log lines, attachments. What it does to a text depends on that text and on
 * the literals it has learned, so redacting the same words twice, or in two places, gives the same words.
 */

import { followKeyLines } from './key-lines.ts';
import { createKeywordScan } from './redaction/keyword-scan.ts';
import { type Pattern, patterns } from './redaction/patterns.ts';
import { everyNameKeyword, isPluralName, isSecretName } from './redaction/secret-names.ts';

export { isSecretName };

export const struckOut = '[struck out]';

export interface Redactor {
  /** One text: a log line, a summary, an attachment. */
  text(text: string): string;
  /** Every text in plain data, and whatever stands under a name that says it is secret. */
  value<T>(value: T): T;
  /** The same for data that is written out as JSON already; cheap where there is nothing to strike out. */
  json(text: string): string;
}

/** A redactor that is told of further secrets while it is in use. */
export interface LearningRedactor extends Redactor {
  /** Adds to the literals. They stay known: what was replaced since may still be printed. */
  learn(literals: readonly string[]): void;
}

const escaped = (literal: string) => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** The longest part of a literal that JSON writes as it is; empty where there is none. */
const plainPart = (literal: string): string =>
  (literal.match(/[ !#-[\]-~]+/g) ?? []).reduce((longest, part) => (part.length > longest.length ? part : longest), '');

/** Also as it stands inside JSON, and the longest first: one may be a part of another. */
function literalPattern(literals: readonly string[]): Pattern[] {
  const forms = new Set(literals.flatMap((literal) => [literal, JSON.stringify(literal).slice(1, -1)]));
  const longestFirst = [...forms].sort((a, b) => b.length - a.length);
  if (longestFirst.length === 0) return [];
  return [{ find: new RegExp(longestFirst.map(escaped).join('|'), 'g'), keywords: literals.map(plainPart) }];
}

/** Which patterns may match a text, in their order; undefined where nothing can. */
type Search = (text: string) => readonly Pattern[] | undefined;

/** Made once: it takes milliseconds, and some redactors live only for one message. Names are no pattern and come last. */
const scanBuiltIn = createKeywordScan([...patterns.map(({ keywords }) => keywords), everyNameKeyword]);

/** `search` keeps no place between calls, whatever the flags. */
const withoutKeyword = patterns.filter(({ keywords }) => keywords.length === 0);

const searchBuiltIn: Search = (text) => {
  const hits = scanBuiltIn(text)?.flatMap((owner) => patterns[owner] ?? []);
  const others = withoutKeyword.filter(({ find }) => text.search(find) >= 0);
  return hits === undefined && others.length === 0 ? undefined : [...others, ...(hits ?? [])];
};

function searchWith(expressions: readonly string[], literals: readonly string[]): Search {
  const known = literalPattern(literals.filter((literal) => literal !== ''));
  if (known.length === 0 && expressions.length === 0) return searchBuiltIn;
  const own = expressions.map((source): Pattern => ({ find: new RegExp(source, 'g'), keywords: [] }));
  const keywords = known.flatMap((pattern) => pattern.keywords);
  const scanKnown = createKeywordScan([keywords.filter((keyword) => keyword !== '')]);
  // A literal without a searchable part may be anywhere, as an installation's own expression may.
  const isAnywhere = keywords.includes('');
  return (text) => {
    const literal = isAnywhere || scanKnown(text) ? known : [];
    const builtIn = searchBuiltIn(text);
    if (own.length === 0 && literal.length === 0) return builtIn;
    return [...own, ...literal, ...(builtIn ?? [])];
  };
}

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
    return suspects.reduce(
      (left, { find, leaves = '', ends = '' }) => left.replaceAll(find, `${leaves}${struckOut}${ends}`),
      given,
    );
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
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [text(name), under(name, inner)]));
  };

  return {
    text,
    value: <T>(value: T) => walk(value) as T,
    json: (written) => (search(written) ? JSON.stringify(walk(JSON.parse(written))) : written),
    learn(learned) {
      const fresh = learned.filter((literal) => !known.has(literal));
      if (fresh.length === 0) return;
      for (const literal of fresh) known.add(literal);
      search = searchWith(expressions, [...known]);
    },
  };
}

/** A word of a command line that names a secret: the next word is its value. */
const isSecretFlag = (word: unknown): boolean =>
  typeof word === 'string' && /^--?[a-z][\w-]{0,127}$/i.test(word) && isSecretName(word);

/** What every installation strikes out. */
export const builtInRedactor: Redactor = createRedactor();
