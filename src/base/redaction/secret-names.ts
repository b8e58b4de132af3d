/**
 * Field and variable names that mark their value as secret: `DB_PASSWORD`, `join_token`,
 * `Set-Cookie`, `AccountKey`.
 */

const keyKinds = [
  'api',
  'access',
  'account',
  'private',
  'secret',
  'signing',
  'encryption',
  'master',
  'storage',
  'auth',
  'client',
  'service',
  'license',
  'subscription',
];

/** Parts of case-insensitive patterns. */
export const passwordName = 'pass(?:word|wd|phrase|code)|secret';
export const keyName = `(?:${keyKinds.join('|')})[-_]?key`;
/**
 * For case-sensitive patterns: `bypass` and `compass` are not passwords, and `PWD` alone is the
 * working directory.
 */
export const shortName =
  '(?<![A-Za-z])(?:pass|Pass|PASS|pwd|Pwd)|(?<=[a-z])P(?:ass|wd)|(?<=[_-])PWD|(?<=[_-])(?:pw|PW)|(?<![A-Za-z])(?:db|pg|user|my|root|DB|PG|USER|MY|ROOT)(?:pass|PASS|pwd)';

const longSecretName = new RegExp(
  `(?:(?:${passwordName}|authorization|cookie|token|credential|cred|${keyName})s?)$`,
  'i',
);
const shortSecretName = new RegExp(`(?:${shortName})$`);

export const isSecretName = (name: string): boolean => longSecretName.test(name) || shortSecretName.test(name);

/** Plural names hold counts: `max_tokens: 100`. */
export const isPluralName = (name: string): boolean => /s$/i.test(name);

const shorts = ['pass', 'pwd', 'pw'];

/**
 * One of these occurs wherever a secret name does, in text or in JSON, where the closing quote may
 * be escaped.
 */
export const nameKeywords = {
  password: ['passw', 'passphrase', 'passcode', 'secret'],
  key: keyKinds.flatMap((kind) => ['', '-', '_'].map((joint) => `${kind}${joint}key`)),
  token: ['token', 'cred'],
  header: ['authorization', 'cookie'],
  short: shorts.flatMap((name) => ['=', ':', '"', "'", '\\', ' ', '\t'].map((after) => `${name}${after}`)),
} as const;

export const everyNameKeyword: readonly string[] = Object.values(nameKeywords).flat();
