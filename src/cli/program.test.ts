/**
 * Checks the declared commands and flags, and the variables and completions generated from them.
 */
import { spawnSync } from 'node:child_process';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { catalogue, loadCommands } from './catalogue.ts';
import { completionScripts } from './commands/local/completion.ts';
import { createProgram, dropUnsetVariables } from './program.ts';
import { silentCli } from './testing/silent-cli.ts';

const program = createProgram(silentCli, '1.2.3', await loadCommands([]));
const everyCommand = (command: Command): Command[] => [command, ...command.commands.flatMap(everyCommand)];

test('gives every flag its own environment variable', () => {
  const options = everyCommand(program).flatMap((command) =>
    command.options.filter(({ long }) => long !== '--version'),
  );
  // The key commands share the server's variable for its key file.
  const names = options.map(({ envVar }) => envVar).filter((name) => name !== 'SLIPWAY_KEY_FILE');
  expect(names.every((name) => name?.startsWith('SLIPWAY_'))).toBe(true);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain('SLIPWAY_TOKENS_CREATE_ROLE');
});

test('drops empty variables, and those of boolean flags with a false value', () => {
  const environment = {
    SLIPWAY_JSON: 'false',
    SLIPWAY_DEBUG: '1',
    SLIPWAY_ALLOCATE_WAIT: '',
    SLIPWAY_SERVER: '',
    SLIPWAY_NODES_STATUS: '',
    SLIPWAY_NODES_POOL: '0',
  };
  dropUnsetVariables(program, environment);
  expect(environment).toEqual({ SLIPWAY_DEBUG: '1', SLIPWAY_NODES_POOL: '0' });
});

test('lists every command in the catalogue under its own name', async () => {
  for (const { commands } of catalogue)
    for (const [name, load] of Object.entries(commands)) expect((await load())(silentCli).name()).toBe(name);
});

test.each([
  [['nodes', '--json'], 1],
  [['tokens', 'create', '--role', 'viewer'], 1],
  [['completion', 'bash'], program.commands.length],
  [['help', 'nodes'], program.commands.length],
  [['--help', 'nodes'], program.commands.length],
  [['--server', 'watch', 'nodes'], program.commands.length],
  [['nods'], program.commands.length],
])('%j loads %d commands', async (words, count) => {
  expect((await loadCommands(words)).flatMap(({ commands }) => commands)).toHaveLength(count);
});

describe('completion', () => {
  const script = completionScripts.bash(program).join('\n');
  /** Returns the completions that a real bash offers after these words. */
  const completionsAfter = (...words: string[]) => {
    const line = words.map((word) => `'${word}'`).join(' ');
    const input = `${script}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _slipway; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr, status } = spawnSync('bash', ['--norc', '-c', input], { encoding: 'utf8' });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    return stdout.split('\n').filter(Boolean);
  };

  test.each([
    [
      ['slipway', 'allo'],
      ['allocate', 'allocations', 'allocation'],
    ],
    [['slipway', 'tokens', 'c'], ['create']],
    [['slipway', 'tokens', 'create', '--ro'], ['--role']],
    [['slipway', 'tokens', 'create', '--role', 'op'], ['operator']],
    [['slipway', '--json', 'nodes', '--status', 'q'], ['quarantined']],
    [['slipway', 'completion', 'b'], ['bash']],
    [['slipway', 'logs', 'node_1', '--fo'], ['--follow']],
    [['slipway', 'act', 'node_1', 'ext'], ['extend-deadline']],
    [['slipway', 'brake', 're'], ['resume']],
    [['slipway', 'maintenance', 'start', 'x', '--un'], ['--until']],
    [['slipway', 'release', 'alloc_1', '--server', ''], []],
  ])('completes %j in bash to %j', (words, expected) => {
    expect(completionsAfter(...words)).toEqual(expected);
  });

  test.each([
    [['slipway', 'apply', '--file', 'package.j'], ['package.json']],
    [['slipway', 'nodes', '--ca', 'package.j'], ['package.json']],
    [['slipway', 'replay', 'gpu', '--policy', 'package.j'], ['package.json']],
    [['slipway', 'certificate', 'alloc_1', '--output', 'package.j'], ['package.json']],
    [['slipway', 'verify-store', '--public-key', 'package.j'], ['package.json']],
    [['slipway', 'verify', 'package.j'], ['package.json']],
    [['slipway', 'verify', '--pub'], ['--public-key']],
    [['slipway', 'nodes', 'package.j'], []],
    [['slipway', 'logs', '-f', 'package.j'], []],
  ])('completes files after %j in bash to %j', (words, expected) => {
    expect(completionsAfter(...words)).toEqual(expected);
  });

  test('reuses the bash script for zsh, and lists every command and flag for fish', () => {
    expect(completionScripts.zsh(program).join('\n')).toContain('bashcompinit');
    const fish = completionScripts.fish(program).join('\n');
    for (const command of everyCommand(program).slice(1)) expect(fish).toContain(` -a ${command.name()} `);
    for (const { long } of program.options.filter(({ long }) => long !== '--version'))
      expect(fish).toContain(` -l ${long?.slice(2)}`);
    expect(fish).toContain(' -l ca -r -F ');
    expect(fish).toContain("complete -c slipway -n '__fish_seen_subcommand_from verify' -F");
    expect(fish).toContain("-s r -l role -x -a 'viewer operator admin relay'");
  });
});
