/**
 * The interface between commands and the program. Commands print and end through it: only main.ts
 * uses the streams and the exit status of the process.
 */
import { Command, type Option } from 'commander';
import type { Session } from './connection/session.ts';
import type { ExitName } from './terminal/exit-codes.ts';
import type { Terminal } from './terminal/terminal.ts';

/** The work of a command. Returns the name of its exit status; undefined means success. */
export type Work<Options> = (session: Session, options: Options, args: string[]) => Promise<ExitName | undefined>;

export interface Cli {
  terminal: Terminal;
  /**
   * Makes the action of a command: opens the session from the flags and turns the result into the
   * exit status. `readServer` reads a server address from the arguments, which overrides --server.
   */
  run<Options>(
    work: Work<Options>,
    readServer?: (args: string[]) => string | undefined,
  ): (...all: unknown[]) => Promise<void>;
}

const variableName = (...words: string[]) =>
  words
    .join('_')
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .toUpperCase();

/**
 * Gives each flag an environment variable: `allocate --timeout-wait` also reads
 * SLIPWAY_ALLOCATE_TIMEOUT_WAIT. Commander reads the variable when the flag is added, so
 * `addOption` names the variable first.
 */
export class SlipwayCommand extends Command {
  readonly words: string[];
  readonly exampleLines: string[] = [];
  readonly requiredOptions: Option[] = [];
  /** The full name, like `tokens create`. */
  constructor(words: string) {
    super(words.slice(words.lastIndexOf(' ') + 1));
    this.words = words.split(' ');
    // Commander checks required flags first, which would report an unknown flag or a wrong argument
    // as a missing flag. This check runs last.
    this.hook('preAction', () => {
      const missing = this.requiredOptions.find((option) => this.getOptionValue(option.attributeName()) === undefined);
      if (missing)
        this.error(`error: required option '${missing.flags}' not specified`, {
          code: 'commander.missingMandatoryOptionValue',
        });
    });
  }
  /** Example command lines for `--help` and the reference. */
  examples(...lines: string[]): this {
    this.exampleLines.push(...lines);
    return this.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  ${line}`)].join('\n'));
  }
  override addOption(option: Option): this {
    option.envVar ??= variableName('slipway', ...this.words, option.name());
    if (option.mandatory) this.requiredOptions.push(option.makeOptionMandatory(false));
    return super.addOption(option);
  }
}

export type MakeCommand = (cli: Cli) => Command;
