/**
 * Parses the command lines of benchmarks. Each benchmark declares its options as data. `--help`
 * prints the options, the header comment of the file and the duration. Unknown options and invalid
 * values are refused before the benchmark starts.
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
  /** The placeholder of the value in the help text. */
  placeholder: string;
  /** Completes the sentence "--name takes …". */
  requirement: string;
  /** Returns undefined for an invalid value. */
  parse(text: string): T | undefined;
}

const parseWhole = (text: string, min: number): number | undefined => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) && value >= min ? value : undefined;
};

const kinds: { [K in keyof Kinds]: Kind<Kinds[K]> } = {
  flag: { placeholder: '', requirement: 'no value', parse: () => undefined },
  count: { placeholder: 'N', requirement: 'a whole number of at least 1', parse: (text) => parseWhole(text, 1) },
  tally: { placeholder: 'N', requirement: 'a whole number of at least 0', parse: (text) => parseWhole(text, 0) },
  amount: {
    placeholder: 'N',
    requirement: 'a number above 0',
    parse: (text) => (/^\d+(\.\d+)?$/.test(text) && Number(text) > 0 ? Number(text) : undefined),
  },
  counts: {
    placeholder: 'N,N,…',
    requirement: 'whole numbers of at least 1, separated by commas',
    parse(text) {
      const values = text.split(',').map((each) => parseWhole(each, 1));
      return values.every((value) => value !== undefined) ? values : undefined;
    },
  },
  choice: { placeholder: 'NAME', requirement: 'one of', parse: (text) => text },
  path: { placeholder: 'PATH', requirement: 'a path', parse: (text) => text || undefined },
};

export type Option = { description: string } & (
  | { kind: 'choice'; choices: readonly string[] }
  | { kind: 'flag' | 'path' }
  | { kind: 'count' | 'tally' | 'amount'; default?: number; max?: number }
  | { kind: 'counts'; default?: readonly number[] }
);

export type Options = Record<string, Option>;

/** The type of an option's value: undefined is possible if the option has no default. */
type OptionValue<O extends Option> = O extends { kind: 'flag' }
  ? boolean
  : O extends { choices: readonly (infer Name)[] }
    ? Name | undefined
    : O extends { default: number | readonly number[] }
      ? Kinds[O['kind']]
      : Kinds[O['kind']] | undefined;

export type Values<O extends Options> = { [Name in keyof O]: OptionValue<O[Name]> };

/** Options that several benchmarks share. Each benchmark lists those it supports. */
export const common = {
  json: { kind: 'flag', description: 'print one line of JSON, which bench/scale-page.ts can record' },
  quick: { kind: 'flag', description: 'a smaller and shorter run, for a first look; it cannot be recorded' },
  rounds: { kind: 'count', default: 5, description: 'number of measurements; their median is reported' },
} as const satisfies Options;

const root = join(import.meta.dirname, '../..');

type Outcome<O extends Options> = { help: true } | { refused: string[] } | { values: Values<O> };

/** Returns undefined if the value is invalid. */
function parseValue(option: Option, text: string | undefined): Kinds[keyof Kinds] | undefined {
  if (option.kind === 'flag') return text === undefined || undefined;
  if (option.kind === 'choice' && !option.choices.includes(text ?? '')) return undefined;
  const value = kinds[option.kind].parse(text ?? '');
  return 'max' in option && Number(value) > (option.max ?? Number.POSITIVE_INFINITY) ? undefined : value;
}

function requirementOf(option: Option): string {
  const { requirement } = kinds[option.kind];
  if (option.kind === 'choice') return `${requirement} ${option.choices.join(', ')}`;
  return 'max' in option ? `${requirement} and at most ${option.max}` : requirement;
}

const defaultOf = (option: Option) =>
  option.kind === 'flag' ? false : 'default' in option ? option.default : undefined;

export function parseOptions<const O extends Options>(options: O, args: string[]): Outcome<O> {
  const known = Object.entries<Option>(options);
  const { tokens } = parseArgs({
    args,
    ...{ strict: false, tokens: true, allowPositionals: true },
    options: Object.fromEntries([
      ...known.map(([name, { kind }]) => [name, { type: kind === 'flag' ? 'boolean' : 'string' } as const]),
      ['help', { type: 'boolean', short: 'h' } as const],
    ]),
  });
  const values = Object.fromEntries(known.map(([name, option]) => [name, defaultOf(option) as unknown]));
  const refused: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'option' && token.name === 'help') return { help: true };
    if (token.kind === 'positional') refused.push(`unexpected argument ${token.value}`);
    if (token.kind !== 'option') continue;
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
    const value = option && parseValue(option, token.value);
    if (!option) refused.push(`unknown option ${token.rawName}`);
    else if (value === undefined)
      refused.push(`${token.rawName} takes ${requirementOf(option)}; got ${token.value || 'nothing'}`);
    else values[token.name] = value;
  }
  return refused.length > 0 ? { refused } : { values: values as Values<O> };
}

const width = 100;

function wrapText(text: string): string {
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
export function headerText(source: string): string {
  const [, comment = ''] = /^\/\*\*([\s\S]*?)\*\//.exec(source) ?? [];
  const text = comment.replaceAll(/^ *\* ?/gm, '').trim();
  return text
    .split(/\n{2,}/)
    .map(wrapText)
    .join('\n\n');
}

export function formatOptions(options: Options): string {
  const help: Option = { kind: 'flag', description: 'print this help and exit' };
  const rows = Object.entries<Option>({ ...options, help }).map(([name, option]): [string, string] => {
    const defaultText = 'default' in option && option.default !== undefined ? ` (${option.default})` : '';
    const choices = option.kind === 'choice' ? `: ${option.choices.join(', ')}` : '';
    return [`--${name} ${kinds[option.kind].placeholder}`.trim(), `${option.description}${choices}${defaultText}`];
  });
  const column = Math.max(...rows.map(([usage]) => usage.length));
  return rows.map(([usage, description]) => `  ${usage.padEnd(column)}  ${description}`).join('\n');
}

interface Program<O extends Options> {
  /** How long the benchmark takes, as text. */
  duration: string;
  options: O;
}

export interface Invocation {
  /** The command line without `--json`, which only affects the output format. */
  command: string;
}

/**
 * `file` is the URL of the program's own file. Exits the process after `--help` and after an
 * invalid command line.
 */
export function readOptions<const O extends Options>(
  file: string,
  { duration, options }: Program<O>,
): Values<O> & Invocation {
  const path = fileURLToPath(file);
  const name = `bin/run ${relative(root, path)}`;
  const args = process.argv.slice(2);
  const outcome = parseOptions(options, args);
  if ('values' in outcome) {
    const command = [name, ...args.filter((arg) => arg !== '--json')].join(' ');
    return { ...outcome.values, command };
  }
  if ('help' in outcome) {
    process.stdout.write(
      `${name}\n\n${headerText(readFileSync(path, 'utf8'))}\n\nDuration: ${duration}.\n\n${formatOptions(options)}\n`,
    );
    process.exit(0);
  }
  process.stderr.write(
    `${outcome.refused.map((each) => `${name}: ${each}\n`).join('')}Options:\n${formatOptions(options)}\n`,
  );
  process.exit(2);
}
