/**
 * Secrets struck out of what is kept or shown: evidence, log lines, attachments. Pure. What it does to a text depends on that text
 * alone, and to a value on its name and itself, so whoever strikes out the same words twice, or in two places, has the same words.
 */

import { followKeyLines, keyBegin, keyEnd } from './key-lines.ts';

export const struckOut = '[struck out]';

export interface Redactor {
  /** One text: a log line, a summary, an attachment. */
  text(text: string): string;
  /** Every text in plain data, and whatever stands under a name that says it is secret. */
  value<T>(value: T): T;
  /** The same for data that is written out as JSON already; cheap where there is nothing to strike out. */
  json(text: string): string;
}

/** Names whose end says that what they hold is a secret, whatever it looks like: `DB_PASSWORD`, `join_token`, `Set-Cookie`. */
const secretName =
  /(?:pass(?:word|wd|phrase)|secret|authorization|cookie|token|credential|(?:api|access|private|secret)[-_]?key)$/i;

export const isSecretName = (name: string): boolean => secretName.test(name);

interface Pattern {
  find: RegExp;
  /** What is left of it besides the mark. */
  leaves?: string;
  ends?: string;
}

/**
 * Ours, those whose makers gave them a shape, and what stands where secrets stand. Each takes time in proportion to the text,
 * whatever the text: machines and strangers write it.
 */
const patterns: Pattern[] = [
  { find: /(?<![A-Za-z0-9])sw[a-z]_[\w.-]{16,}/g },
  { find: /(?<![\w-])eyJ[\w-]{8,1024}\.[\w-]{8,}\.[\w-]*/g },
  { find: /(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[\w-]{10,}/g },
  { find: /AKIA[0-9A-Z]{16}/g },
  { find: new RegExp(`(${keyBegin})(?:(?!-----END)[\\s\\S])*(${keyEnd})?`, 'g'), leaves: '$1', ends: '$2' },
  // A header to the end of its line, or of the quotes it stands in.
  {
    find: /((?:authorization|cookie|x-api-key)(?:\\{0,7}["'])?\s{0,8}[:=]\s{0,8}(?:\\{0,7}["'])?)(?!(?:\w{1,16} )?\[struck out\])(\w{1,16} (?=\S))?[^\s"'\\][^\r\n"'\\]*/gi,
    leaves: '$1$2',
  },
  { find: /((?<![\w-])(?:bearer|basic)\s{1,8})(?:(?=\S{0,256}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})/gi, leaves: '$1' },
  // The password in an address: postgres://somebody:this@host.
  { find: /(:(?:\\{0,7}\/){2}[^\s:/@"']{0,256}:)(?!\[struck out\]@)[^\s/"']{1,512}(?=@)/g, leaves: '$1' },
  // In quotes, to the quote that ends it: one that is escaped belongs to it, and the quotes may be escaped themselves.
  {
    find: /((?:pass(?:word|wd|phrase)|secret|(?:api|access|private|secret)[_-]?key)(?:\\{0,7}["'])?\s{0,8}[=:]\s{0,8}(\\{0,7}["']))(?!\2)[^\r\n]*?(?=(?<!\\)\2|[\r\n]|$)/gi,
    leaves: '$1',
  },
  {
    find: /((?:pass(?:word|wd|phrase)|secret|(?:api|access|private|secret)[_-]?key)(?:\\{0,7}["'])?\s{0,8}[=:]\s{0,8})[^\s"'&,;[\]{}\\]+/gi,
    leaves: '$1',
  },
  { find: /((?:token|credential)(?:\\{0,7}["'])?=(?:\\{0,7}["'])?)[^\s"'&,;[\]{}\\]+/gi, leaves: '$1' },
  // Many a message says `token: expired`; only what is long enough to be one is struck out.
  { find: /((?:token|credential)(?:\\{0,7}["'])?\s{0,8}:\s{0,8}(?:\\{0,7}["'])?)[\w.~+/=-]{16,}/gi, leaves: '$1' },
];

/** Every pattern and every secret name has one of these in it, also when written out as JSON; without them there is nothing to look for. */
const suspicion =
  /(?:sw[a-z]|gh[pousr]|github_pat)_|eyJ|glpat-|xox[abprs]-|AKIA|:(?:\\{0,15}\/){2}[^\s/"]{0,1600}@|authorization|cookie|bearer|basic|pass(?:word|wd|phrase)|secret|token|credential|(?:api|access|private)[-_ ]?key/i;

const escaped = (literal: string) => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** `expressions` are the installation's own; `literals` are secrets that this process knows by heart. */
export function createRedactor(expressions: readonly string[] = [], literals: readonly string[] = []): Redactor {
  const own = [...expressions, ...literals.map(escaped)].map((source): Pattern => ({ find: new RegExp(source, 'g') }));
  const all = [...own, ...patterns];
  const known = literals.flatMap((literal) => [literal, JSON.stringify(literal).slice(1, -1)]);
  // Somebody's own expression may look for anything, so nothing can be told from the text as a whole.
  const isSuspect =
    expressions.length > 0
      ? () => true
      : (text: string) => suspicion.test(text) || known.some((literal) => text.includes(literal));

  const strike = (text: string) =>
    all.reduce((left, { find, leaves = '', ends = '' }) => left.replaceAll(find, `${leaves}${struckOut}${ends}`), text);
  const text = (given: string) => (isSuspect(given) ? strike(given) : given);

  const under = (name: string, value: unknown): unknown =>
    isSecretName(name) && (typeof value === 'string' || typeof value === 'number') ? struckOut : walk(value);
  /** Lines in their order may hold a key that none of them shows to be one. */
  const list = (values: readonly unknown[]): unknown[] => {
    const keys = followKeyLines(undefined, struckOut);
    return values.map((value) => {
      if (typeof value === 'string') return keys.isInside('', value) ? struckOut : text(value);
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
    json: (written) => (isSuspect(written) ? JSON.stringify(walk(JSON.parse(written))) : written),
  };
}

/** What every installation strikes out. */
export const builtInRedactor = createRedactor();
