/**
 * The patterns of the redactor: our own tokens, formats with a recognizable prefix, and values in
 * places that usually hold secrets. Every pattern takes time linear in the length of the text,
 * because untrusted machines write the text.
 */
import { issuedFormats, wordBegin } from './issued-formats.ts';
import { keyBegin, keyEnd } from './key-lines.ts';
import { keyName, nameKeywords, passwordName, shortName } from './secret-names.ts';

export interface Pattern {
  find: RegExp;
  /** The text to keep before and after the mark, as references to groups of `find`. */
  before?: string;
  after?: string;
  /**
   * Each match contains one of these keywords, also in JSON. The pattern runs only if one occurs;
   * case is ignored. A pattern without keywords runs on every text, so omit them only for formats
   * whose prefix is too short to be a keyword.
   */
  keywords: readonly string[];
  /**
   * The keyword need not be part of the match. For example, `-u` takes a password only after
   * `curl`.
   */
  keyword_outside?: true;
}

const word = ({ raw: [source = ''] }: TemplateStringsArray) => new RegExp(`${wordBegin}${source}`, 'g');

const quote = `(?:\\\\{0,7}["'])`;
const assignment = `${quote}?\\s{0,8}[=:]\\s{0,8}`;
const bareValue = `[^\\s"'&,;[\\]{}\\\\]+`;
const untilQuote = `(\\\\{0,7}["']))(?!\\2)`;
const everyName = `${passwordName}|${keyName}`;
/**
 * `pass` and `pwd` also occur in prose, test results and shells, so paths, counts and words such as
 * `ok` are not redacted as passwords.
 */
const notPlain = '(?![/~$]|(?:\\d{1,6}|true|false|ok|yes|no)(?![^\\s,;"\']))';

/** Words that follow a flag's name in a sentence about the flag, and placeholders. */
const notProse =
  '(?!(?:is|was|are|were|be|must|may|can|cannot|should|needs?|and|or|for|to|with|without|not|has|had|in|from|of|the|an?|on|if|when|as|option|flag|instead|given|missing|required|takes|wants|value|token|password|secret|file|name|path)(?![^\\s,.:;]))';

/**
 * These run first and on every text. Their fixed lengths let the regular expression engine skip
 * through the text. A lookbehind for a word boundary would miss a token after `\n` in JSON.
 */
const withoutKeyword: Pattern[] = [
  { find: /SK[0-9a-f]{32}/g, keywords: [] },
  { find: /pat[A-Za-z0-9]{14}\.[0-9a-f]{64}/g, keywords: [] },
];

const formatPatterns: Pattern[] = [
  {
    find: word`sw[a-z]_[\w.-]{16,}`,
    keywords: [...'abcdefghijklmnopqrstuvwxyz'].map((kind) => `sw${kind}_`),
  },
  { find: word`eyJ[\w-]{8,1024}\.[\w-]{8,}\.[\w-]*`, keywords: ['eyj'] },
  {
    find: new RegExp(`(${keyBegin})(?:(?!-----END)[\\s\\S])*(${keyEnd})?`, 'g'),
    before: '$1',
    after: '$2',
    keywords: ['private key'],
  },
  ...issuedFormats.map(({ prefix, find }) => ({ find, keywords: [prefix] })),
  { find: word`A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}`, keywords: ['a3-'] },
  { find: word`re_[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,}`, keywords: ['re_'] },
  { find: word`AAAA[\w-]{7}:[\w-]{100,}`, keywords: ['aaaa'] },
  { find: word`[\w~.]{3}\dQ~[\w~.-]{31,}`, keywords: ['q~'] },
  { find: /(?<![0-9])[0-9]{8,12}:AA[\w-]{30,}/g, keywords: [':aa'] },
  { find: word`[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk`, keywords: ['_mmk'] },
  { find: word`[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])`, keywords: ['-us'] },
  { find: word`(?:sk|pk|tk)\.eyJ[\w-]{20,}(?:\.[\w-]{10,})?`, keywords: ['.eyj'] },
  // Webhook URLs are secret: anyone who knows them may post.
  {
    find: /(hooks\.slack\.com\/(?:services|workflows|triggers)\/)[\w/+-]{20,}/g,
    before: '$1',
    keywords: ['hooks.slack.com'],
  },
  { find: /(\/api\/webhooks\/[0-9]{10,24}\/)[\w-]{20,}/g, before: '$1', keywords: ['/api/webhooks/'] },
  { find: /(\.webhook\.office\.com\/webhookb2\/)[^\s"'\\[]{20,}/g, before: '$1', keywords: ['.webhook.office.com'] },
];

const contextPatterns: Pattern[] = [
  // Redact a header up to the end of its line or of the enclosing quotes.
  {
    find: /((?:authorization|cookie|(?<![\w-])(?:x(?:-[a-z]{1,16}){0,3}-(?:key|token|secret)|private-token))(?:\\{0,7}["'])?\s{0,8}[:=]\s{0,8}(?:\\{0,7}["'])?)(?!(?:\w{1,16} )?\[struck out\])(\w{1,16} (?=\S))?[^\s"'\\][^\r\n"'\\]*/gi,
    before: '$1$2',
    keywords: ['authorization', 'cookie', '-key', '-token', '-secret'],
  },
  {
    find: /((?<![\w-])(?:bearer|basic)\s{1,8})(?:(?=\S{0,256}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})/gi,
    before: '$1',
    keywords: ['bearer', 'basic'],
  },
  // The password in a URL, as in postgres://somebody:this@host, or a token in place of the
  // name.
  {
    find: /(:(?:\\{0,7}\/){2}[^\s:/@"']{0,256}:)(?!\[struck out\]@)[^\s/"']{1,512}(?=@)/g,
    before: '$1',
    keywords: ['@'],
  },
  { find: /(:(?:\\{0,7}\/){2})[\w-]{20,512}(?=@)/g, before: '$1', keywords: ['@'] },
  // The signature in a URL grants access to the resource.
  {
    find: /([?&;](?:x-(?:amz|goog)-)?sig(?:nature)?=)[\w%+/=.-]{16,}/gi,
    before: '$1',
    keywords: ['sig=', 'signature='],
  },
  // Redact a quoted value up to its closing quote. An escaped quote is part of the value, and the
  // quotes themselves may be escaped.
  {
    find: new RegExp(`((?:${everyName})${assignment}${untilQuote}[^\\r\\n]*?(?=(?<!\\\\)\\2|[\\r\\n]|$)`, 'gi'),
    before: '$1',
    keywords: [...nameKeywords.password, ...nameKeywords.key],
  },
  {
    find: new RegExp(`((?:${everyName})${assignment})${bareValue}`, 'gi'),
    before: '$1',
    keywords: [...nameKeywords.password, ...nameKeywords.key],
  },
  {
    find: new RegExp(
      `((?:${shortName})${assignment}${untilQuote}${notPlain}[^\\r\\n]*?(?=(?<!\\\\)\\2|[\\r\\n]|$)`,
      'g',
    ),
    before: '$1',
    keywords: nameKeywords.short,
  },
  {
    // `second pass: 12 machines` is prose, so no word may precede the name before a colon.
    find: new RegExp(`((?:${shortName})${quote}?(?:=|(?<![\\w.,)] \\w{1,16}):\\s{0,8}))${notPlain}${bareValue}`, 'g'),
    before: '$1',
    keywords: nameKeywords.short,
  },
  {
    find: /((?:token|credential|cred)s?(?:\\{0,7}["'])?=(?:\\{0,7}["'])?)[^\s"'&,;[\]{}\\]+/gi,
    before: '$1',
    keywords: nameKeywords.token,
  },
  // Messages like `token: expired` are common; redact only values of a token's length.
  {
    find: /((?:token|credential|cred)s?(?:\\{0,7}["'])?\s{0,8}:\s{0,8}(?:\\{0,7}["'])?)[\w.~+/=-]{16,}/gi,
    before: '$1',
    keywords: nameKeywords.token,
  },
  // Redact the value of a flag: `--password x`, or as list items "--password", "x".
  {
    find: new RegExp(
      `((?<![\\w-])--?(?:[a-z][a-z0-9]{0,31}[-_]){0,4}(?:[a-z][a-z0-9]{0,31})?(?:${everyName}|pass|pwd|token)(?:[ \\t]{1,8}${quote}?|${quote}[ \\t]{0,4},[ \\t]{0,4}${quote}))${notProse}[^\\s"'\\\\[<$-][^\\s"'\\\\]*`,
      'gi',
    ),
    before: '$1',
    keywords: [...nameKeywords.password, ...nameKeywords.key, ...nameKeywords.token, ...nameKeywords.short],
  },
  { find: /((?<![\w-])sshpass\s{1,4}-p\s{0,4}["']?)[^\s"'[]+/g, before: '$1', keywords: ['sshpass'] },
  // `docker run -u 1000:1000` passes a user and a group, so two numbers are not redacted.
  {
    find: /((?<![\w-])(?:-u|--user|--proxy-user)(?:=|\s{1,4})?["']?[^\s:"'/]{1,128}:)(?!\d+(?![^\s"']))[^\s"'[]+/g,
    before: '$1',
    keywords: ['curl '],
    keyword_outside: true,
  },
];

export const patterns: readonly Pattern[] = [...withoutKeyword, ...formatPatterns, ...contextPatterns];
