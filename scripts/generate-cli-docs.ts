/**
 * Writes docs/reference/cli.md from the declarations of the command line: `bin/run
 * scripts/generate-cli-docs.ts`. A test checks that the page is up to date.
 */
import { join } from 'node:path';
import type { Command, Option } from 'commander';
import { usage as agentUsage } from '../src/agent/options.ts';
import { backupUsage, moveUsage, restoreUsage } from '../src/backup/options.ts';
import { serverUsage } from '../src/base/settings/settings.ts';
import { loadCommands } from '../src/cli/catalogue.ts';
import { SlipwayCommand } from '../src/cli/command.ts';
import { createProgram } from '../src/cli/program.ts';
import { exitCodes } from '../src/cli/terminal/exit-codes.ts';
import { silentCli } from '../src/cli/testing/silent-cli.ts';
import { relayUsage } from '../src/relay/options.ts';
import { adminUsage } from '../src/server/admin-text.ts';
import { upgradeUsage } from '../src/server/upgrade-text.ts';
import { runGenerator } from './generator/run-generator.ts';

export const page = join(import.meta.dirname, '../docs/reference/cli.md');

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string) => `\`${text}\``;

const table = (heads: string[], rows: string[][]): string[] => [
  `| ${heads.join(' | ')} |`,
  `|${heads.map(() => '---').join('|')}|`,
  ...rows.map((row) => `| ${row.map(cell).join(' | ')} |`),
];

function describeOption({ description, argChoices, defaultValue }: Option, isRequired: boolean): string {
  const notes = [
    isRequired && 'required',
    argChoices && `one of ${argChoices.map(code).join(', ')}`,
    defaultValue !== undefined && `default ${code(String(defaultValue))}`,
  ].filter(Boolean);
  return description + (notes.length > 0 ? ` (${notes.join('; ')})` : '');
}

const optionTable = (options: readonly Option[], required: readonly Option[] = []): string[] =>
  table(
    ['flag', 'variable', 'meaning'],
    options
      .filter((option) => !option.hidden && option.envVar)
      .map((option) => [
        code(option.flags),
        code(option.envVar ?? ''),
        describeOption(option, required.includes(option)),
      ]),
  );

/** These are separate programs with their own usage text. */
const usages: Record<string, string> = {
  'slipway serve': serverUsage(),
  'slipway agent': agentUsage,
  'slipway relay': relayUsage,
  'slipway upgrade': upgradeUsage,
  'slipway admin': adminUsage,
  'slipway backup': backupUsage,
  'slipway restore': restoreUsage,
  'slipway move-database': moveUsage,
};

const wordsOf = (command: Command): string[] => [...(command.parent ? wordsOf(command.parent) : []), command.name()];

function commandSection(command: Command): string[] {
  const words = wordsOf(command).join(' ');
  const children = command.commands.flatMap((sub) => ['', ...commandSection(sub)]);
  const usageText = (usages[words] ?? `${words} ${command.usage()}`).trimEnd();
  const usage = children.length > 0 ? [] : ['', '```', usageText, '```'];
  const arguments_ = command.registeredArguments.map((argument) => {
    const choices = argument.argChoices ? `: ${argument.argChoices.map(code).join(', ')}` : '';
    return `- ${code(argument.name())}: ${argument.description}${choices}`;
  });
  const required = command instanceof SlipwayCommand ? command.requiredOptions : [];
  const options = command.options.length > 0 ? ['', ...optionTable(command.options, required)] : [];
  const examples =
    command instanceof SlipwayCommand && command.exampleLines.length > 0
      ? ['', '```sh', ...command.exampleLines, '```']
      : [];
  const depth = '#'.repeat(words.split(' ').length + 1);
  return [
    `${depth} ${words}`,
    '',
    command.description(),
    ...usage,
    ...(arguments_.length > 0 ? ['', ...arguments_] : []),
    ...options,
    ...examples,
    ...children,
  ];
}

export async function referenceDocument(): Promise<string> {
  const program = createProgram(silentCli, '', await loadCommands([]));
  const exits = Object.values(exitCodes).map((exit) => [String(exit.code), exit.means]);
  const lines = [
    '# The slipway command',
    '',
    '<!-- Made by scripts/generate-cli-docs.ts from src/cli; do not edit. -->',
    '',
    'For operators and scripts: every command of `./bin/slipway` (in a clone) or `slipway` (installed), its flags and its',
    'exit status. Output is for people; `--json` is for programs: one document, or one object per line for `watch` and',
    '`logs`. Tables fit the terminal and are never cut in a pipe; ids are always whole. `NO_COLOR` switches colours off.',
    '',
    '## Server and token',
    '',
    ...optionTable(program.options),
    '',
    'These flags may be anywhere on the line. The command takes the first token it finds: `--token-file`, `--token`,',
    '`SLIPWAY_TOKEN_FILE`, `SLIPWAY_TOKEN`, `SLIPWAY_ADMIN_TOKEN`, then `admin.token` in the data directory (`--data-dir`,',
    '`.slipway` here, or `.slipway` in the clone). It sends a token from a data directory only to this host.',
    '',
    '**Do not put a token on the command line of a shared host**: every user there can list the arguments of every process.',
    '',
    'For a server with a private certificate authority, add `--ca ca.pem`.',
    '',
    'Every flag has an environment variable, named in the tables below; the flag takes precedence. An empty variable counts',
    'as unset; for a flag without a value, so do `0`, `false`, `no` and `off`. `serve`, `agent` and `relay` name their variables',
    'in `--help`: `SLIPWAY_PORT`, `SLIPWAY_AGENT_BASE_URL`, `SLIPWAY_RELAY_TLS_CERT`.',
    '',
    '## Exit status',
    '',
    ...table(['status', 'means'], exits),
    '',
    'Ctrl-C stops `watch` without an id and `logs -f` with status 0.',
    '',
    '## Waiting',
    '',
    '`--wait` and `watch ID` show the progress that the server computes: the step, its usual duration, a bar that never goes',
    'back, and an estimate. They follow the event stream, resume it after the last event, and poll each second without one.',
    'They wait up to two minutes for a server that restarts, because operations survive a restart. Ctrl-C and',
    '`--timeout-wait` stop only the wait.',
    '',
    '## Errors',
    '',
    'An error says what happened, why, and what to do. It names its code, the layer that owns it and the correlation id,',
    'which the logs of the server and of every machine have too. With `--json` it is one document on stderr. `--debug` adds',
    'stack traces.',
    '',
    '## Commands',
    '',
    ...program.commands.flatMap((command) => [...commandSection(command), '']),
  ];
  return `${lines.join('\n').trimEnd()}\n`;
}

if (import.meta.main) await runGenerator({ 'docs/reference/cli.md': referenceDocument });
