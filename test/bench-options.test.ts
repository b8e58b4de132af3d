/** The command line of a benchmark: unknown options are refused, and help runs nothing. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { common, headOf, listed, parseOptions } from '../bench/harness/options.ts';

const options = {
  ...common,
  nodes: { kind: 'counts', otherwise: [10], what: 'sizes' },
  minutes: { kind: 'amount', what: 'how long' },
  deaths: { kind: 'tally', what: 'how many die' },
  story: { kind: 'choice', among: ['restart', 'rolling'], what: 'what befalls it' },
  from: { kind: 'path', what: 'where it lies' },
} as const;
const parse = (line: string) => parseOptions(options, line.split(' ').filter(Boolean));
const defaults = { json: false, quick: false, rounds: 5, nodes: [10], minutes: undefined };

describe('a command line', () => {
  test('without options gives the defaults', () => {
    expect(parse('')).toEqual({ values: { ...defaults, deaths: undefined, story: undefined, from: undefined } });
  });

  test('is parsed by the kind of each option', () => {
    expect(parse('--quick --nodes 1,20 --minutes 1.5 --deaths=0 --story rolling --from a/b --rounds 3')).toEqual({
      values: {
        ...{ json: false, quick: true, rounds: 3, nodes: [1, 20] },
        ...{ minutes: 1.5, deaths: 0, story: 'rolling', from: 'a/b' },
      },
    });
  });

  test.for([
    ['--node 5', ['unknown option --node', 'unexpected argument 5']],
    ['--constructor', ['unknown option --constructor']],
    ['-q', ['unknown option -q']],
    ['quick', ['unexpected argument quick']],
    ['--quick=no', ['--quick takes nothing behind it, and not no']],
    ['--rounds 0', ['--rounds takes a whole number from 1, and not 0']],
    ['--rounds 2x', ['--rounds takes a whole number from 1, and not 2x']],
    ['--rounds --quick', ['--rounds takes a whole number from 1, and not --quick']],
    ['--rounds', ['--rounds takes a whole number from 1, and not nothing']],
    ['--deaths -1', ['--deaths takes a whole number from 0, and not -1']],
    ['--minutes 0', ['--minutes takes a number above 0, and not 0']],
    ['--nodes 1,,2', ['--nodes takes whole numbers from 1 with commas between them, and not 1,,2']],
    ['--story sad', ['--story takes one of restart, rolling, and not sad']],
    ['--from=', ['--from takes a path, and not nothing']],
  ] as const)('%s is refused with a message', ([line, refused]) => {
    expect(parse(line)).toEqual({ refused });
  });

  test.for(['--help', '-h', '--node --help', '--rounds 3 --help'])('%s only prints help', (line) => {
    expect(parse(line)).toEqual({ help: true });
  });
});

test('help names every option with its values and its default', () => {
  const text = listed(options);
  expect(text).toMatch(/--nodes N,N,… +sizes \(10\)/);
  expect(text).toMatch(/--story NAME +what befalls it: restart, rolling/);
  expect(text.split('\n')).toHaveLength(Object.keys(options).length + 1);
});

test('help prints the header comment of the file in paragraphs', () => {
  expect(headOf('/**\n * One\n * two.\n *\n * `--three`.\n */\nimport x;\n/** not this */')).toBe(
    'One two.\n\n`--three`.',
  );
  expect(headOf('/** One. */\n')).toBe('One.');
});

const bench = new URL('../bench/', import.meta.url);
const programs = readdirSync(bench, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name, source: readFileSync(new URL(name, bench), 'utf8') }));

test('every program reads its options through harness/options.ts', () => {
  const argumentReaders = programs
    .filter(({ source }) => /parseArgs|process\.argv/.test(source))
    .map(({ name }) => name);
  // raw-server.ts is started by beat.ts and takes its port.
  expect(argumentReaders.sort()).toEqual(['beats/raw-server.ts', 'harness/options.ts']);
  const reports = programs.filter(({ name, source }) => /^\s*report\(/m.test(source) && name !== 'fleet.ts');
  expect(reports.length).toBeGreaterThan(15);
  for (const { name, source } of reports) {
    // Options are read first; only imports may come before.
    const before = source.slice(0, source.indexOf('const options = readOptions(import.meta.url, {'));
    expect(before, name).not.toBe('');
    expect(before, name).not.toMatch(/^(await|const|let|for|try)\b/m);
  }
});

test('a program with --help or an unknown option exits without running the benchmark', () => {
  const run = (name: string, word: string) =>
    spawnSync(process.execPath, [fileURLToPath(new URL(name, bench)), word], { encoding: 'utf8' });
  const help = run('fleet.ts', '--help');
  expect(help).toMatchObject({ status: 0, stderr: '' });
  expect(help.stdout).toMatch(
    /^node bench\/fleet\.ts\n\n[\s\S]*a million agents[\s\S]*\n\nIt takes [\s\S]*--story NAME/,
  );
  const wrong = run('scale-page.ts', '--form');
  expect(wrong).toMatchObject({ status: 2, stdout: '' });
  expect(wrong.stderr).toMatch(/^node bench\/scale-page\.ts: unknown option --form\nIt has:\n[\s\S]*--from PATH/);
});
