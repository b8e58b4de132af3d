/**
 * Tests the redactor on real secret formats in real contexts, on harmless texts, and its speed on
 * hostile text.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { patterns } from './patterns.ts';
import { builtInRedactor, redactionMark } from './redact.ts';
import { everyNameKeyword } from './secret-names.ts';
import { sampleSecrets } from './testing/formats.ts';
import { harmlessTexts } from './testing/harmless.ts';

const contexts: Record<string, (secret: string) => string> = {
  bare: (secret) => secret,
  'in a sentence': (secret) => `the value ${secret} was shown`,
  'an assignment': (secret) => `export UPSTREAM=${secret}`,
  JSON: (secret) => JSON.stringify({ kind: 'upstream', value: secret, retries: 3 }),
  'JSON in JSON': (secret) => JSON.stringify({ msg: JSON.stringify({ value: `\n${secret}` }) }),
  'a URL': (secret) => `GET https://api.example.com/v1/items?page=2&k=${secret}&x=1`,
  'a header': (secret) => `Upstream-Id: ${secret}`,
  'a flag': (secret) => `run --upstream ${secret} --verbose`,
  YAML: (secret) => `upstream:\n  value: ${secret}\n  retries: 3`,
};

test('the corpus has at least 100 different secrets and 50 harmless texts', () => {
  expect(sampleSecrets.length).toBeGreaterThanOrEqual(100);
  expect(new Set(sampleSecrets.map(({ secret }) => secret)).size).toBe(sampleSecrets.length);
  expect(harmlessTexts.length).toBeGreaterThanOrEqual(50);
});

test.for(Object.entries(contexts))('redacts every format in %s', ([, context]) => {
  const missedNames = sampleSecrets
    .filter(({ secret, hidden }) => builtInRedactor.text(context(secret)).includes(hidden.slice(0, 12)))
    .map(({ name }) => name);
  expect(missedNames).toEqual([]);
});

test('redacts every format in data and in its JSON', () => {
  const missed = sampleSecrets.filter(({ secret, hidden }) => {
    const data = { lines: ['before', `\n${secret}`], nested: { value: secret } };
    const redacted = builtInRedactor.json(JSON.stringify(data));
    return redacted.includes(hidden.slice(0, 12)) || JSON.stringify(builtInRedactor.value(data)) !== redacted;
  });
  expect(missed.map(({ name }) => name)).toEqual([]);
});

const value = 'hunter2-Zx81';

test.for([
  `mysql --user root --password ${value} --host db`,
  `mysql --password=${value}`,
  `tool --db-password '${value}' run`,
  `tool --api-key ${value}`,
  `tool -token ${value}`,
  `sshpass -p ${value} ssh host`,
  `curl -sS -u joe:${value} https://h/`,
  `curl --user joe:${value} https://h/`,
  `DB_PASS=${value}`,
  `export PASS='${value}'`,
  `PGPASS=${value}`,
  `DB_PWD=${value}`,
  `dbPass: ${value}`,
  `Server=db;Uid=sa;Pwd=${value};Encrypt=yes`,
  `pwd=${value}`,
  `{"pass":"${value}"}`,
  `{"db_pwd": "${value}"}`,
  `pass: ${value}`,
  `DefaultEndpointsProtocol=https;AccountName=a;AccountKey=${value}==;EndpointSuffix=core`,
  `SharedAccessKeyName=root;SharedAccessKey=${value}=`,
  `https://store.example.net/c/b?sv=2024&sig=${value}${value}&se=2026`,
  `https://${'f'.repeat(16)}${value}@o1.ingest.example.io/2`,
  `X-Auth-Token: ${value}`,
  `PRIVATE-TOKEN: ${value}`,
  `x-goog-api-key: ${value}`,
  `["mysql","--password","${value}","-h","db"]`,
  `https://hooks.slack.com/services/T00000000/B00000000/${value.replaceAll('-', '')}${value.replaceAll('-', '')}`,
  `https://discord.com/api/webhooks/123456789012345678/${value}${value}`,
  `passphrase = "two words ${value}"`,
  `credentials=${value}`,
])('redacts the value in %s', (input) => {
  const redacted = builtInRedactor.text(input);
  expect(redacted).not.toContain(value.slice(0, 8));
  expect(redacted).toContain(redactionMark);
  expect(builtInRedactor.text(redacted)).toBe(redacted);
});

test('redacts all values under secret names, nested ones too, and keeps counts', () => {
  const input = {
    tokens: [value, { nested: 'stays' }],
    password: [[value], 1234],
    credentials: value,
    db_pass: value,
    Pwd: value,
    AccountKey: value,
    max_tokens: 512,
    PWD: '/work',
    command: ['mysql', '--password', value, '--host', 'db'],
  };
  const redacted = builtInRedactor.value(input);
  expect(JSON.stringify(redacted)).not.toContain(value);
  expect(redacted).toMatchObject({
    tokens: [redactionMark, { nested: 'stays' }],
    password: [[redactionMark], redactionMark],
    max_tokens: 512,
    PWD: '/work',
    command: ['mysql', '--password', redactionMark, '--host', 'db'],
  });
  expect(JSON.parse(builtInRedactor.json(JSON.stringify(input)))).toEqual(redacted);
});

test.for(harmlessTexts)('leaves %s as it is', (plain) => {
  expect(builtInRedactor.text(plain)).toBe(plain);
  expect(JSON.parse(builtInRedactor.json(JSON.stringify({ plain })))).toEqual({ plain });
});

/**
 * Runs every pattern without looking for keywords first, unless the keyword lies outside the match.
 */
const redactWithAllPatterns = (text: string): string =>
  patterns
    .filter(({ keywords, keyword_outside }) => !keyword_outside || keywords.some((keyword) => text.includes(keyword)))
    .reduce(
      (result, { find, before = '', after = '' }) => result.replaceAll(find, `${before}${redactionMark}${after}`),
      text,
    );

test('the keyword scan skips no pattern that would match', () => {
  const pieces = fc.oneof(
    fc.constantFrom(...sampleSecrets.map(({ secret }) => secret)),
    fc.constantFrom(
      ...everyNameKeyword,
      'Authorization',
      'DB_PASS',
      'dbPass',
      'Pwd',
      'AccountKey',
      '-----BEGIN PRIVATE KEY-----',
    ),
    fc.constantFrom(...patterns.flatMap(({ keywords }) => keywords)),
    fc.constantFrom('=', ': ', ' ', '"', "'", '\\"', '\n', '--', '-', '@', '://', '/', '?sig=', '&', ',', 'x', value),
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
      const text = parts.join('');
      expect(builtInRedactor.text(text)).toBe(redactWithAllPatterns(text));
      const data = { field: text };
      expect(JSON.parse(builtInRedactor.json(JSON.stringify(data)))).toEqual({ field: redactWithAllPatterns(text) });
    }),
    { numRuns: 3_000, examples: [[['-us', '://']], [['curl ', '-us', '://', value]]] },
  );
});

const hostilePieces = [
  ...new Set(patterns.flatMap(({ keywords }) => keywords.slice(0, 2))),
  'password="',
  "secret:'",
  'eyJ',
  '-----BEGIN PRIVATE KEY',
  '://a:',
  'token="',
  'a',
  '\\',
  'x-x-',
  '--a-b-c-d-password ',
  'curl -u a:',
  'pass:',
];

/** Measures the CPU time of this process only, so that a busy machine does not matter. */
function cpuMs(work: () => void): number {
  let minMs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 4; run++) {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    minMs = Math.min(minMs, (user + system) / 1000);
  }
  return minMs;
}

test('takes time proportional to the length of hostile text', () => {
  const slow = hostilePieces.filter((piece) => {
    const long = (length: number) => `${piece.repeat(Math.ceil(length / piece.length))} token curl password`;
    const [some, more] = [long(25_000), long(100_000)];
    // Less than a millisecond is noise.
    const base = Math.max(
      1,
      cpuMs(() => builtInRedactor.text(some)),
    );
    return cpuMs(() => builtInRedactor.text(more)) > 9 * base;
  });
  expect(slow).toEqual([]);
});
