/**
 * Secrets struck out of what is kept or shown: evidence, log lines, attachments. Pure. What it does to a text depends on that text
 * alone, and to a value on its name and itself, so whoever strikes out the same words twice, or in two places, has the same words.
 */

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

interface Pattern {
  find: RegExp;
  /** What is left of it besides the mark. */
  leaves?: string;
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
  { find: /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]{0,30}-----)?/g },
  // A header to the end of its line, or of the quotes it stands in.
  {
    find: /((?:authorization|cookie|x-api-key)["']?\s{0,8}[:=]\s{0,8}["']?)(?!(?:\w{1,16} )?\[struck out\])(\w{1,16} (?=\S))?[^\s"'][^\r\n"']*/gi,
    leaves: '$1$2',
  },
  { find: /((?<![\w-])(?:bearer|basic)\s{1,8})(?:(?=\S{0,256}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})/gi, leaves: '$1' },
  // The password in an address: postgres://somebody:this@host.
  { find: /(:\/\/[^\s:/@"']{0,256}:)(?!\[struck out\]@)[^\s/@"']{1,512}(?=@)/g, leaves: '$1' },
  {
    find: /((?:pass(?:word|wd|phrase)|secret|(?:api|access|private|secret)[_-]?key)["']?\s{0,8}[=:]\s{0,8}["']?)[^\s"'&,;[\]{}]+/gi,
    leaves: '$1',
  },
  { find: /((?:token|credential)["']?=["']?)[^\s"'&,;[\]{}]+/gi, leaves: '$1' },
  // Many a message says `token: expired`; only what is long enough to be one is struck out.
  { find: /((?:token|credential)["']?\s{0,8}:\s{0,8}["']?)[\w.~+/=-]{16,}/gi, leaves: '$1' },
];

/** Every pattern and every secret name has one of these in it, also when written out as JSON; without them there is nothing to look for. */
const suspicion =
  /(?:sw[a-z]|gh[pousr]|github_pat)_|eyJ|glpat-|xox[abprs]-|AKIA|:\/\/[^\s/"]{0,1600}@|authorization|cookie|bearer|basic|pass(?:word|wd|phrase)|secret|token|credential|(?:api|access|private)[-_ ]?key/i;

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
    all.reduce((left, { find, leaves = '' }) => left.replaceAll(find, `${leaves}${struckOut}`), text);
  const text = (given: string) => (isSuspect(given) ? strike(given) : given);

  const under = (name: string, value: unknown): unknown =>
    secretName.test(name) && (typeof value === 'string' || typeof value === 'number') ? struckOut : walk(value);
  const walk = (value: unknown): unknown => {
    if (typeof value === 'string') return text(value);
    if (Array.isArray(value)) return value.map(walk);
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
