/**
 * Recognizes field and variable names whose value is secret, such as `DB_PASSWORD`, `join_token`,
 * `Set-Cookie` and `AccountKey`.
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

/** These are parts of case-insensitive patterns. */
export const passwordName = 'pass(?:word|wd|phrase|code)|secret';
export const keyName = `(?:${keyKinds.join('|')})[-_]?key`;
/**
 * This is part of case-sensitive patterns: `bypass` and `compass` are not passwords, and `PWD`
 * alone is the working directory.
 */
export const shortName =
  '(?<![A-Za-z])(?:pass|Pass|PASS|pwd|Pwd)|(?<=[a-z])P(?:ass|wd)|(?<=[_-])PWD|(?<=[_-])(?:pw|PW)|(?<![A-Za-z])(?:db|pg|user|my|root|DB|PG|USER|MY|ROOT)(?:pass|PASS|pwd)';

const longSecretName = new RegExp(
  `(?:(?:${passwordName}|authorization|cookie|token|credential|cred|${keyName})s?)$`,
  'i',
);
const shortSecretName = new RegExp(`(?:${shortName})$`);

export const isSecretName = (name: string): boolean => longSecretName.test(name) || shortSecretName.test(name);

/** A number under a plural name is a count, as in `max_tokens: 100`. */
export const isPluralName = (name: string): boolean => /s$/i.test(name);

const shortNames = ['pass', 'pwd', 'pw'];

/** A cheap filter: a text without any of these keywords contains no secret name. */
export const nameKeywords = {
  password: ['passw', 'passphrase', 'passcode', 'secret'],
  key: keyKinds.flatMap((kind) => ['', '-', '_'].map((joint) => `${kind}${joint}key`)),
  token: ['token', 'cred'],
  header: ['authorization', 'cookie'],
  // In JSON inside a string, the closing quote after a name is escaped, so a backslash follows.
  short: shortNames.flatMap((name) => ['=', ':', '"', "'", '\\', ' ', '\t'].map((after) => `${name}${after}`)),
} as const;

export const everyNameKeyword: readonly string[] = Object.values(nameKeywords).flat();
