/**
 * Parses the command lines of benchmarks. Each declares its options as data; `--help` prints them
 * with the header of its file and its duration, and unknown options are refused. In both cases
 * nothing is started.
 */
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

interface Kinds {
  flag: boolean;
  count: number;
  /** A count that may be zero. */
  tally: number;
  amount: number;
  counts: readonly number[];
  choice: string;
  path: string;
}

interface Kind<T> {
  /** The placeholder of the value, and its requirement. */
  form: string;
  must: string;
  read(text: string): T | undefined;
}

const whole = (text: string, least: number): number | undefined => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) && value >= least ? value : undefined;
};

const kinds: { [K in keyof Kinds]: Kind<Kinds[K]> } = {
  flag: { form: '', must: 'nothing behind it', read: () => undefined },
  count: { form: 'N', must: 'a whole number from 1', read: (text) => whole(text, 1) },
  tally: { form: 'N', must: 'a whole number from 0', read: (text) => whole(text, 0) },
  amount: {
    form: 'N',
    must: 'a number above 0',
    read: (text) => (/^\d+(\.\d+)?$/.test(text) && Number(text) > 0 ? Number(text) : undefined),
  },
  counts: {
    form: 'N,N,…',
    must: 'whole numbers from 1 with commas between them',
    read(text) {
      const values = text.split(',').map((each) => whole(each, 1));
      return values.every((value) => value !== undefined) ? values : undefined;
    },
  },
  choice: { form: 'NAME', must: 'one of', read: (text) => text },
  path: { form: 'PATH', must: 'a path', read: (text) => text || undefined },
};

export type Option = { what: string } & (
  | { kind: 'choice'; among: readonly string[] }
  | { kind: 'flag' | 'path' }
  | { kind: 'count' | 'tally' | 'amount'; otherwise?: number }
  | { kind: 'counts'; otherwise?: readonly number[] }
);

export type Options = Record<string, Option>;

/** An option without a default may be omitted and is then undefined. */
type Read<O extends Option> = O extends { kind: 'flag' }
  ? boolean
  : O extends { among: readonly (infer Name)[] }
    ? Name | undefined
    : O extends { otherwise: number | readonly number[] }
      ? Kinds[O['kind']]
      : Kinds[O['kind']] | undefined;

export type Values<O extends Options> = { [Name in keyof O]: Read<O[Name]> };

/** Options of most benchmarks; each lists those it supports. */
export const common = {
  json: { kind: 'flag', what: 'print one line for programs, which bench/scale-page.ts records' },
  quick: { kind: 'flag', what: 'smaller and shorter, for a first look; never recorded' },
  rounds: { kind: 'count', otherwise: 5, what: 'how often it is measured; the middle counts' },
} as const satisfies Options;

const root = join(import.meta.dirname, '../..');

type Outcome<O extends Options> = { help: true } | { refused: string[] } | { values: Values<O> };

/** The parsed value of an option, or undefined if it is invalid. */
function heard(option: Option, said: string | undefined): Kinds[keyof Kinds] | undefined {
  if (option.kind === 'flag') return said === undefined || undefined;
  if (option.kind === 'choice' && !option.among.includes(said ?? '')) return undefined;
  return kinds[option.kind].read(said ?? '');
}

const mustBe = (option: Option): string =>
  option.kind === 'choice' ? `${kinds.choice.must} ${option.among.join(', ')}` : kinds[option.kind].must;

const absent = (option: Option) =>
  option.kind === 'flag' ? false : 'otherwise' in option ? option.otherwise : undefined;

export function parseOptions<const O extends Options>(options: O, words: string[]): Outcome<O> {
  const known = Object.entries<Option>(options);
  const { tokens } = parseArgs({
    args: words,
    ...{ strict: false, tokens: true, allowPositionals: true },
    options: Object.fromEntries([
      ...known.map(([name, { kind }]) => [name, { type: kind === 'flag' ? 'boolean' : 'string' } as const]),
      ['help', { type: 'boolean', short: 'h' } as const],
    ]),
  });
  const values = Object.fromEntries(known.map(([name, option]) => [name, absent(option) as unknown]));
  const refused: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'option' && token.name === 'help') return { help: true };
    if (token.kind === 'positional') refused.push(`unexpected argument ${token.value}`);
    if (token.kind !== 'option') continue;
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
    const value = option && heard(option, token.value);
    if (!option) refused.push(`unknown option ${token.rawName}`);
    else if (value === undefined)
      refused.push(`${token.rawName} takes ${mustBe(option)}, and not ${token.value || 'nothing'}`);
    else values[token.name] = value;
  }
  return refused.length > 0 ? { refused } : { values: values as Values<O> };
}

const width = 100;

function wrapped(text: string): string {
  let line = '';
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    if (line && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line ? `${line} ${word}` : word;
  }
  return [...lines, line].join('\n');
}

/** The header comment of a file as plain text. */
export function headOf(source: string): string {
  const [, comment = ''] = /^\/\*\*([\s\S]*?)\*\//.exec(source) ?? [];
  const text = comment.replaceAll(/^ *\* ?/gm, '').trim();
  return text
    .split(/\n{2,}/)
    .map(wrapped)
    .join('\n\n');
}

export function listed(options: Options): string {
  const help: Option = { kind: 'flag', what: 'this, and nothing is started' };
  const rows = Object.entries<Option>({ ...options, help }).map(([name, option]): [string, string] => {
    const otherwise = 'otherwise' in option && option.otherwise !== undefined ? ` (${option.otherwise})` : '';
    const among = option.kind === 'choice' ? `: ${option.among.join(', ')}` : '';
    return [`--${name} ${kinds[option.kind].form}`.trim(), `${option.what}${among}${otherwise}`];
  });
  const column = Math.max(...rows.map(([form]) => form.length));
  return rows.map(([form, what]) => `  ${form.padEnd(column)}  ${what}`).join('\n');
}

interface Program<O extends Options> {
  /** How long the benchmark takes, as text. */
  takes: string;
  options: O;
}

/** The command line, without options that only affect the output format. */
export interface Called {
  command: string;
}

/** `file` is the URL of the program's own file. Returns only if the program should run. */
export function readOptions<const O extends Options>(file: string, { takes, options }: Program<O>): Values<O> & Called {
  const path = fileURLToPath(file);
  const name = `node ${relative(root, path)}`;
  const words = process.argv.slice(2);
  const outcome = parseOptions(options, words);
  if ('values' in outcome) {
    const command = [name, ...words.filter((word) => word !== '--json')].join(' ');
    return { ...outcome.values, command };
  }
  if ('help' in outcome) {
    process.stdout.write(
      `${name}\n\n${headOf(readFileSync(path, 'utf8'))}\n\nIt takes ${takes}.\n\n${listed(options)}\n`,
    );
    process.exit(0);
  }
  process.stderr.write(`${outcome.refused.map((each) => `${name}: ${each}\n`).join('')}It has:\n${listed(options)}\n`);
  process.exit(2);
}
