/** Tests how benchmarks read their command line and print their help. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { common, formatOptions, headerText, parseOptions } from '../bench/harness/options.ts';

const options = {
  ...common,
  nodes: { kind: 'counts', default: [10], description: 'fleet sizes' },
  minutes: { kind: 'amount', description: 'duration' },
  deaths: { kind: 'tally', description: 'machines that die' },
  story: { kind: 'choice', choices: ['restart', 'rolling'], description: 'the simulated event' },
  from: { kind: 'path', description: 'input file' },
  boots: { kind: 'count', max: 3, description: 'simulated boots' },
} as const;
const parse = (line: string) => parseOptions(options, line.split(' ').filter(Boolean));
const defaults = { json: false, quick: false, rounds: 5, nodes: [10], minutes: undefined };

describe('parseOptions', () => {
  test('returns the defaults for an empty command line', () => {
    expect(parse('')).toEqual({ values: { ...defaults, deaths: undefined, story: undefined, from: undefined } });
  });

  test('parses each value by the kind of its option', () => {
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
    ['--quick=no', ['--quick takes no value; got no']],
    ['--rounds 0', ['--rounds takes a whole number of at least 1; got 0']],
    ['--rounds 2x', ['--rounds takes a whole number of at least 1; got 2x']],
    ['--rounds --quick', ['--rounds takes a whole number of at least 1; got --quick']],
    ['--rounds', ['--rounds takes a whole number of at least 1; got nothing']],
    ['--deaths -1', ['--deaths takes a whole number of at least 0; got -1']],
    ['--boots 4', ['--boots takes a whole number of at least 1 and at most 3; got 4']],
    ['--minutes 0', ['--minutes takes a number above 0; got 0']],
    ['--nodes 1,,2', ['--nodes takes whole numbers of at least 1, separated by commas; got 1,,2']],
    ['--story sad', ['--story takes one of restart, rolling; got sad']],
    ['--from=', ['--from takes a path; got nothing']],
  ] as const)('%s is refused with a message', ([line, refused]) => {
    expect(parse(line)).toEqual({ refused });
  });

  test.for(['--help', '-h', '--node --help', '--rounds 3 --help'])(
    'returns only the request for help for %s',
    (line) => {
      expect(parse(line)).toEqual({ help: true });
    },
  );
});

test('help names every option with its values and its default', () => {
  const text = formatOptions(options);
  expect(text).toMatch(/--nodes N,N,… +fleet sizes \(10\)/);
  expect(text).toMatch(/--story NAME +the simulated event: restart, rolling/);
  expect(text.split('\n')).toHaveLength(Object.keys(options).length + 1);
});

test('help prints the header comment of the file in paragraphs', () => {
  expect(headerText('/**\n * One\n * two.\n *\n * `--three`.\n */\nimport x;\n/** not this */')).toBe(
    'One two.\n\n`--three`.',
  );
  expect(headerText('/** One. */\n')).toBe('One.');
});

const bench = new URL('../bench/', import.meta.url);
const programs = readdirSync(bench, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name, source: readFileSync(new URL(name, bench), 'utf8') }));

test('every benchmark reads its options through harness/options.ts before it does anything else', () => {
  const argumentReaders = programs
    .filter(({ source }) => /parseArgs|process\.argv/.test(source))
    .map(({ name }) => name);
  // beats/processes.ts starts raw-server.ts and passes only a port to it.
  expect(argumentReaders.sort()).toEqual(['beats/raw-server.ts', 'harness/options.ts']);
  const benchmarks = programs.filter(({ name, source }) => /^\s*report\(/m.test(source) && name !== 'fleet.ts');
  expect(benchmarks.length).toBeGreaterThan(15);
  for (const { name, source } of benchmarks) {
    // Only imports may come before the call that reads the options.
    const beginning = source.slice(0, source.indexOf('const options = readOptions(import.meta.url, {'));
    expect(beginning, name).not.toBe('');
    expect(beginning, name).not.toMatch(/^(await|const|let|for|try)\b/m);
  }
});

test('a benchmark started with --help or an unknown option exits without running', () => {
  const run = (name: string, argument: string) =>
    spawnSync(process.execPath, [fileURLToPath(new URL(name, bench)), argument], { encoding: 'utf8' });
  const help = run('fleet.ts', '--help');
  expect(help).toMatchObject({ status: 0, stderr: '' });
  expect(help.stdout).toMatch(
    /^bin\/run bench\/fleet\.ts\n\n[\s\S]*a million agents[\s\S]*\n\nDuration: [\s\S]*--story NAME/,
  );
  const invalidRun = run('scale-page.ts', '--form');
  expect(invalidRun).toMatchObject({ status: 2, stdout: '' });
  expect(invalidRun.stderr).toMatch(
    /^bin\/run bench\/scale-page\.ts: unknown option --form\nOptions:\n[\s\S]*--from PATH/,
  );
});
