/** Tests that secrets are redacted in any context, and that plain words and redacted text stay. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { builtInRedactor, createRedactor, redactionMark } from './redact.ts';

const token = `swt_${'aB3-_'.repeat(8)}xyz`;
const secret = 'hunter2-Zx81';

test.for([
  [`the token ${token} was shown`, `the token ${redactionMark} was shown`],
  [`swe_${'a'.repeat(40)}.${'b'.repeat(43)}`, redactionMark],
  [`Authorization: Bearer ${secret}`, `Authorization: Bearer ${redactionMark}`],
  ['authorization: Basic dXNlcjpwYXNz', `authorization: Basic ${redactionMark}`],
  [`curl -H 'X-Api-Key: ${secret}' http://h/`, `curl -H 'X-Api-Key: ${redactionMark}' http://h/`],
  [`Set-Cookie: session=${secret}; Path=/`, `Set-Cookie: ${redactionMark}`],
  [`sent bearer ${'q'.repeat(20)} to it`, `sent bearer ${redactionMark} to it`],
  [`postgres://slipway:${secret}@db:5432/x`, `postgres://slipway:${redactionMark}@db:5432/x`],
  [`DB_PASSWORD=${secret} ./run`, `DB_PASSWORD=${redactionMark} ./run`],
  [`{"password":"${secret}","user":"joe"}`, `{"password":"${redactionMark}","user":"joe"}`],
  [`GET /login?token=${secret}&a=b`, `GET /login?token=${redactionMark}&a=b`],
  [`AWS_SECRET_ACCESS_KEY=${secret}`, `AWS_SECRET_ACCESS_KEY=${redactionMark}`],
  [`token: ${'z'.repeat(20)}`, `token: ${redactionMark}`],
  ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0x.c2lnbmF0dXJl', redactionMark],
  [`key ghp_${'a1'.repeat(18)}`, `key ${redactionMark}`],
  [
    'before -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- after',
    `before -----BEGIN RSA PRIVATE KEY-----${redactionMark}-----END RSA PRIVATE KEY----- after`,
  ],
  ['-----BEGIN PRIVATE KEY-----\nMIIcut off', `-----BEGIN PRIVATE KEY-----${redactionMark}`],
  [`"https:\\/\\/joe:${secret}@h"`, `"https:\\/\\/joe:${redactionMark}@h"`],
  [`postgres://joe:with@${secret}@db/x`, `postgres://joe:${redactionMark}@db/x`],
  [`{"password":"with\\"${secret}","user":"joe"}`, `{"password":"${redactionMark}","user":"joe"}`],
  [`password: "two words ${secret}" and more`, `password: "${redactionMark}" and more`],
  [`{"msg":"{\\"secret\\":\\"${secret}\\",\\"a\\":1}"}`, `{"msg":"{\\"secret\\":\\"${redactionMark}\\",\\"a\\":1}"}`],
  [`{"msg":"{\\"cookie\\":\\"s=${secret}\\"}"}`, `{"msg":"{\\"cookie\\":\\"${redactionMark}\\"}"}`],
] as const)('redacts %s', ([input, redacted]) => {
  expect(builtInRedactor.text(input)).toBe(redacted);
  expect(builtInRedactor.text(redacted)).toBe(redacted);
});

test.for([
  'the credential is not that of the instance inst_01',
  'token: expired',
  'send a bearer credential with each call; basic authentication is not offered',
  'ready → offline: no heartbeat for 12 s',
  'token_id=tok_0123456789abcdefghij was revoked',
  'http://127.0.0.1:7070/v1/nodes@home',
  'the access key was rotated',
])('leaves %s as it is', (plain) => expect(builtInRedactor.text(plain)).toBe(plain));

test('redacts a value because of its name or its format', () => {
  const at = new Date(0);
  const input = { at, headers: { Authorization: 'x', accept: '*/*' }, join_token: 'short', pin: [token], token: null };
  const redacted = {
    at,
    headers: { Authorization: redactionMark, accept: '*/*' },
    join_token: redactionMark,
    pin: [redactionMark],
  };
  expect(builtInRedactor.value(input)).toEqual({ ...redacted, token: null });
  expect(JSON.parse(builtInRedactor.json(JSON.stringify(input)))).toEqual({
    ...redacted,
    at: at.toISOString(),
    token: null,
  });
});

const key = ['MIIEowIBAAKCAQEAplanted1'.padEnd(64, 'A'), 'planted2'.padEnd(64, 'B'), 'planted3='];
const keyLines = ['-----BEGIN RSA PRIVATE KEY-----', ...key, '-----END RSA PRIVATE KEY-----'];

test.for([
  ['printed plainly', (line: string) => line, ''],
  [
    'printed with a time before each line',
    (line: string) => `2026-01-01T00:00:00Z app | ${line}`,
    '2026-01-01T00:00:00Z app | ',
  ],
  ['printed as source code', (line: string) => `  "${line}\\n" +`, '  "'],
] as const)('redacts a key over several lines, %s, and keeps the lines around it', ([, form, margin]) => {
  const lines = ['before', ...keyLines.map(form), 'after', 'sha256 of it', 'd'.repeat(64)];
  const redacted = builtInRedactor.value(lines);
  expect(redacted.join()).not.toContain('planted');
  expect(redacted.slice(0, 2)).toEqual(['before', `${margin}-----BEGIN RSA PRIVATE KEY-----${redactionMark}`]);
  expect(redacted.slice(6)).toEqual(['after', 'sha256 of it', 'd'.repeat(64)]);
  expect(builtInRedactor.value(redacted)).toEqual(redacted);
  const numbered = lines.map((line, seq) => ({ seq, stream: 'stdout', line }));
  const mixed = numbered.flatMap((each) => [each, { ...each, stream: 'stderr', line: 'tick' }]);
  const redactedMix = builtInRedactor.value(mixed);
  expect(JSON.stringify(redactedMix)).not.toContain('planted');
  expect(redactedMix.filter(({ line }) => line === 'tick')).toHaveLength(lines.length);
});

test('leaves prose about keys alone', () => {
  const lines = ['expected -----BEGIN PRIVATE KEY-----', 'failed', 'd'.repeat(64), 'bye'];
  expect(builtInRedactor.value(lines).slice(1)).toEqual(lines.slice(1));
});

test('redacts the literals and expressions of an installation', () => {
  const redactor = createRedactor(['ACME-\\d{4}'], ['kept "by" heart']);
  expect(redactor.text('ACME-1234 and kept "by" heart')).toBe(`${redactionMark} and ${redactionMark}`);
  expect(createRedactor([], ['kept "by" heart']).json(JSON.stringify(['kept "by" heart']))).toBe(
    `["${redactionMark}"]`,
  );
});

test('keeps keys that look like field names, and redacts other keys', () => {
  const redactor = createRedactor([], ['correlation_id', 'quartz-harbor-77-meadow']);
  const input = { correlation_id: 'quartz-harbor-77-meadow', 'quartz-harbor-77-meadow': 1 };
  expect(redactor.value(input)).toEqual({ correlation_id: redactionMark, [redactionMark]: 1 });
});

test('redacts a learned literal in every form, but not in a copy without learned literals', () => {
  const redactor = createRedactor(['ACME-\\d{4}'], ['known from the start']);
  const long = `begin ${'0123456789abcdef "quoted" '.repeat(400)} end`;
  redactor.learn([long, 'plum~quartz~meadow~93']);
  expect(redactor.text(`a ${long} b plum~quartz~meadow~93`)).toBe(`a ${redactionMark} b ${redactionMark}`);
  expect(redactor.json(JSON.stringify({ a: [long] }))).toBe(`{"a":["${redactionMark}"]}`);
  expect(redactor.text(JSON.stringify(long))).toBe(`"${redactionMark}"`);
  expect(redactor.text('PLUM~QUARTZ~MEADOW~93 and quartz~meadow')).toBe('PLUM~QUARTZ~MEADOW~93 and quartz~meadow');
  const fresh = redactor.withoutLearned();
  expect(fresh.text('ACME-1234 known from the start plum~quartz~meadow~93')).toBe(
    `${redactionMark} ${redactionMark} plum~quartz~meadow~93`,
  );
});

test('uses memory for the number of literals, not for their length', () => {
  const bytesOf = (length: number): number => {
    const before = process.memoryUsage().arrayBuffers;
    createRedactor(
      [],
      Array.from({ length: 20 }, (_, at) => `${at}-`.padEnd(length, 'abcdefghijklmnop')),
    );
    return process.memoryUsage().arrayBuffers - before;
  };
  expect(bytesOf(64_000)).toBeLessThan(2 ** 20);
});

test('redacts JSON text like the data that it holds', () => {
  const words = fc.constantFrom(
    token,
    'password',
    'token',
    ':',
    '=',
    ' ',
    '"',
    '\n',
    '\\',
    '://a:b@c',
    'Bearer ',
    secret,
  );
  const texts = fc.array(words, { maxLength: 8 }).map((parts) => parts.join(''));
  const values = fc.dictionary(fc.oneof(texts, fc.string()), fc.oneof(texts, fc.array(texts), fc.integer()));
  fc.assert(
    fc.property(values, (value) => {
      const redacted = builtInRedactor.value(value);
      expect(JSON.parse(builtInRedactor.json(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(redacted)));
      expect(builtInRedactor.value(redacted)).toEqual(redacted);
    }),
  );
});
