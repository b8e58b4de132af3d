/** Builds the whole command line: commands, shared flags and help. */
import { Command, Option } from 'commander';
import { defaultServer } from '../base/network/default-server.ts';
import { insecureHttpFlag, insecureHttpVariable } from '../base/network/insecure-http.ts';
import { type Environment, readVariable } from '../base/settings/flag-variables.ts';
import type { CommandGroup } from './catalogue.ts';
import type { Cli } from './command.ts';
import { wrap } from './render/text/text.ts';
import { exitCodes } from './terminal/exit-codes.ts';

/** The flags that every command takes. */
export interface SharedOptions {
  server: string;
  token?: string;
  tokenFile?: string;
  dataDir?: string;
  ca?: string;
  allowInsecureHttp?: boolean;
  json?: boolean;
  debug?: boolean;
}

const sharedOptions = () => [
  new Option('--server <url>', 'the server').env('SLIPWAY_SERVER').default(defaultServer),
  new Option('--token-file <file>', 'a file with your token; - reads standard input').env('SLIPWAY_TOKEN_FILE'),
  new Option('--token <token>', 'your token; every user of this host can read it here, so prefer the variable').env(
    'SLIPWAY_TOKEN',
  ),
  new Option('--data-dir <dir>', 'the data directory of a server on this host, to use its admin.token').env(
    'SLIPWAY_DATA_DIR',
  ),
  new Option('--ca <file>', 'a certificate authority to trust in addition to the default ones (PEM)').env('SLIPWAY_CA'),
  new Option(`--${insecureHttpFlag}`, 'allow sending your token to another host over http://').env(
    insecureHttpVariable,
  ),
  new Option('--json', 'print JSON: one document, or one object per line for streams').env('SLIPWAY_JSON'),
  new Option('--debug', 'print stack traces').env('SLIPWAY_DEBUG'),
];

const everyCommand = (command: Command): Command[] => [command, ...command.commands.flatMap(everyCommand)];

const falseValue = /^(0|false|no|off)$/i;

/**
 * Removes empty variables, and those of boolean flags with a false value. Commander reads both as
 * set, and any value of a boolean flag as true.
 */
export function dropUnsetVariables(program: Command, environment: Environment): void {
  for (const { options } of everyCommand(program))
    for (const { envVar, required, optional } of options) {
      if (!envVar) continue;
      const text = readVariable(environment, envVar);
      if (text === undefined || (!required && !optional && falseValue.test(text))) delete environment[envVar];
    }
}

export const exitCodeLines = (): string[] =>
  Object.values(exitCodes).map(({ code, means }) => `  ${String(code).padEnd(5)}${means}`);

const tokenHelp =
  'The token comes from --token-file, --token, SLIPWAY_TOKEN_FILE, SLIPWAY_TOKEN or SLIPWAY_ADMIN_TOKEN, or else from ' +
  'admin.token in the data directory: --data-dir, .slipway here, or .slipway in the clone.';
const variableHelp = 'Every flag has an environment variable: SLIPWAY_<COMMAND>_<FLAG>, like SLIPWAY_ALLOCATE_POOL.';

const closingHelp = (width: number) =>
  ['', ...wrap(tokenHelp, width), ...wrap(variableHelp, width), '', 'Exit status:', ...exitCodeLines()].join('\n');

const maxHelpColumns = 110;

export function createProgram(cli: Cli, version: string, groups: readonly CommandGroup[]): Command {
  const program = new Command('slipway')
    .description('Bring machines up, see what they do and why, and take them down.')
    .version(version, '-V, --version', 'print the version')
    .addHelpCommand(
      new Command('help')
        .argument('[command]')
        .helpOption(false)
        .description('Show the help of a command.')
        .helpGroup('Set up:'),
    )
    .addHelpText('after', () => closingHelp(Math.min(cli.terminal.out.columns(), maxHelpColumns)));
  for (const option of sharedOptions()) program.addOption(option);
  for (const { heading, commands } of groups) {
    program.commandsGroup(heading);
    for (const make of commands) program.addCommand(make(cli).helpGroup(heading));
  }
  for (const command of everyCommand(program)) {
    command.exitOverride();
    command.showHelpAfterError(`See ${[...pathOf(command), '--help'].join(' ')}`);
    command.configureHelp({
      showGlobalOptions: true,
      // Omits the environment variables; the closing help explains how they are named.
      optionDescription: (option) => describeOption(option),
    });
    command.configureOutput({
      writeOut: (text) => cli.terminal.out.write(text),
      writeErr: (text) => cli.terminal.err.write(text),
      getOutHelpWidth: () => Math.min(cli.terminal.out.columns(), maxHelpColumns),
      getErrHelpWidth: () => Math.min(cli.terminal.err.columns(), maxHelpColumns),
    });
  }
  return program;
}

const pathOf = (command: Command): string[] => [...(command.parent ? pathOf(command.parent) : []), command.name()];

function describeOption({ description, argChoices, defaultValue }: Option): string {
  const notes = [
    argChoices && `one of ${argChoices.join(', ')}`,
    defaultValue !== undefined && `default ${String(defaultValue)}`,
  ].filter(Boolean);
  return notes.length > 0 ? `${description} (${notes.join('; ')})` : description;
}
