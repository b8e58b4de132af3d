/** Input of any size that makes careless parsers slow. */

export type Shape = (size: number) => string;

const fill = (text: string, size: number): string => text.repeat(Math.max(1, Math.floor(size / text.length)));
const listOf = (size: number, each: number, item: (index: number) => string): string[] =>
  Array.from({ length: Math.max(1, Math.floor(size / each)) }, (_, index) => item(index));

export const hostileJson: Record<string, Shape> = {
  'many keys': (size) => `{${listOf(size, 12, (i) => `"k${i}":0`).join(',')}}`,
  'one key many times': (size) => `{${fill('"a":0,', size)}"a":0}`,
  'keys that are numbers': (size) => `{${listOf(size, 12, (i) => `"${i * 4096}":0`).join(',')}}`,
  'deep lists': (size) => '['.repeat(size / 2) + ']'.repeat(size / 2),
  'deep objects': (size) => `${fill('{"a":', size)}0${'}'.repeat(size / 5)}`,
  'lists without end': (size) => '['.repeat(size),
  'many lists': (size) => `[${fill('[],', size)}[]]`,
  'many numbers': (size) => `[${fill('1,', size)}1]`,
  'a long number': (size) => fill('1', size),
  'a long string': (size) => `"${fill('x', size)}"`,
  'a string without end': (size) => `"${fill('x', size)}`,
  'a string of escapes': (size) => `"${fill('\\u0041', size)}"`,
  blanks: (size) => fill(' ', size),
  prototypes: (size) => `[${fill('{"__proto__":0},', size)}0]`,
  'a prototype deep inside': (size) => `${'['.repeat(size / 2)}{"__proto__":0}${']'.repeat(size / 2)}`,
  'almost prototypes': (size) => `[${fill('"__proto__"          ,', size)}0]`,
  constructors: (size) => `[${fill('{"constructor":{"prototype":0}},', size)}0]`,
  'a long token': (size) => JSON.stringify({ token: fill('x', size) }),
  'a long name': (size) => JSON.stringify({ version: '1', name: `${fill('a-', size)}!` }),
  'a long address': (size) => JSON.stringify({ version: '1', base_url: `http://${fill('a/', size)} ` }),
  'wide characters': (size) => JSON.stringify({ token: fill('👩‍👩', size), name: fill('e\u0301', size) }),
  'many labels': (size) => `{"version":"1","labels":{${listOf(size, 14, (i) => `"l${i}":""`).join(',')}}}`,
  'many stages': (size) => `{"version":"1","boot":{"stages":[${fill('{"name":"","seconds":-1},', size)}{}]}}`,
  'many beats': (size) => `{"beats":[${fill('{},', size)}{}]}`,
  'beats with unknown keys': (size) => `{"beats":[${fill('{"a":1,"b":2,"c":3,"d":4},', size)}{}]}`,
  'bad beats behind good ones': (size) =>
    `{"beats":[${fill('{"status":"ready"},', size / 2)}${fill('{"status":"?"},', size / 2)}{}]}`,
};

export const hostileYaml: Record<string, Shape> = {
  'many keys': (size) => listOf(size, 10, (i) => `k${i}: 1`).join('\n'),
  'many keys in braces': (size) => `{${listOf(size, 10, (i) => `k${i}: 1`).join(', ')}}`,
  'brackets without end': (size) => fill('[', size),
  'braces without end': (size) => fill('{a: ', size),
  'nested brackets': (size) => '['.repeat(size / 2) + ']'.repeat(size / 2),
  'nested lists': (size) => `${fill('- ', size)}a`,
  'nested keys': (size) => fill('? ', size),
  'closing brackets': (size) => fill(']', size),
  commas: (size) => `[${fill(',', size)}]`,
  'list items': (size) => fill('-\n', size),
  anchors: (size) => listOf(size, 10, (i) => `- &a${i} x`).join('\n'),
  aliases: (size) => `- &a x\n${fill('- *a\n', size)}`,
  merges: (size) => `a: &a {b: 1}\nc:\n${fill('  <<: *a\n', size)}`,
  comments: (size) => `a: 1\n${fill('# c\n', size)}`,
  tags: (size) => `a: ${fill('!!str ', size)}x`,
  'unknown tags': (size) => fill('- !x y\n', size),
  directives: (size) => `${fill('%FOO bar\n', size)}---\na: 1`,
  documents: (size) => fill('---\na\n', size),
  'a long scalar': (size) => `a: ${fill('x ', size)}`,
  'a scalar of many lines': (size) => `a: x\n${fill('  x\n', size)}`,
  'bad escapes': (size) => `a: "${fill('\\q', size)}"`,
  'a string without end': (size) => `a: "${fill('x\n ', size)}`,
  'a block of blank lines': (size) => `a: |\n${fill('\n', size)}`,
  'a folded block': (size) => `a: >\n${fill('  x\n    y\n', size)}`,
  'carriage returns': (size) => `a: x${fill('\r', size)}y`,
};

export const hostileBootReports: Record<string, Shape> = {
  'finished stages': (size) => fill('Finished stage: (a) 0.1 seconds\n', size),
  'stages that begin': (size) => fill('Starting stage: a\n', size),
  'stages that begin, then others that end': (size) =>
    fill('Starting stage: a\n', size / 2) + fill('Finished stage: (b) 0.1 seconds\n', size / 2),
  'different stages': (size) => listOf(size, 36, (i) => `Finished stage: (s${i}) 0.1 seconds`).join('\n'),
  'boot records': (size) => fill('-- Boot Record 01 --\n', size),
  'blamed parts': (size) => listOf(size, 20, (i) => `0.1s (a/b${i})`).join('\n'),
  'one long part': (size) => `|\`->${fill(' @1.1s', size)}`,
  'outcomes in a part': (size) => `|\`->${fill(' failed running', size)}\u2028 @1.1s +1.1s`,
  'a long heading': (size) => `The time ${fill('a ', size)}`,
  'a long total': (size) => `Total Time: ${fill('1', size)}`,
  blanks: (size) => `${fill(' ', size)}x`,
  'events that begin': (size) => `[${fill('{"name":"a","event_type":"start","timestamp":1},', size)}null]`,
  'events that end': (size) =>
    `[${fill('{"name":"a","event_type":"start","timestamp":1},{"name":"a","event_type":"finish","timestamp":2},', size)}{"name":"a","event_type":"","timestamp":1}]`,
  'different events': (size) =>
    `[${listOf(size, 100, (i) => `{"name":"s${i}","event_type":"start","timestamp":1},{"name":"s${i}","event_type":"finish","timestamp":2}`).join()}]`,
  'nested lists': (size) => fill('[', size),
  'an announced module': (size) => `|\`->running ${fill('a with frequency ', size)} @1.1s +1.1s`,
  'durations of a part': (size) => `|\`->${fill(' (duration: 0.1s)', size)}x @1.1s +1.1s`,
};

/** Values of headers and of path segments. */
export const hostileText: Record<string, Shape> = {
  letters: (size) => fill('a', size),
  digits: (size) => fill('1', size),
  dashes: (size) => fill('1-', size),
  commas: (size) => fill('a,', size),
  semicolons: (size) => fill('a;', size),
  cookies: (size) => fill('a=b; ', size),
  'equal signs': (size) => fill('=', size),
  quotes: (size) => fill('a="b', size),
  colons: (size) => fill(':1', size),
  slashes: (size) => fill('/', size),
  dots: (size) => fill('/..', size),
  percents: (size) => fill('%41', size),
  'bad percents': (size) => fill('%', size),
  ampersands: (size) => fill('a&', size),
  pairs: (size) => listOf(size, 8, (i) => `k${i}=1`).join('&'),
  blanks: (size) => `Bearer ${fill(' ', size)}x y`,
  parameters: (size) => `application/json${fill(';a=b', size)}`,
  addresses: (size) => `http://${fill('a.', size)}`,
  ports: (size) => `a${fill(':', size)}1`,
};
