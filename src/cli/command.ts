/** What a command is given, and what it gives back. The commands know no process: main.ts joins them to one. */
import { Command, type Option } from 'commander';
import type { Session } from './connection/session.ts';
import type { ExitName } from './terminal/exit-codes.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Nothing returned means that it worked. */
export type Work<Options> = (session: Session, options: Options, args: string[]) => Promise<ExitName | undefined>;

export interface Cli {
  terminal: Terminal;
  /**
   * Makes an action of a command: opens the session from the flags, and reports the outcome as the exit status. `server` is for
   * a command that may name one in its arguments; it then counts as if it stood in --server.
   */
  run<Options>(
    work: Work<Options>,
    server?: (args: string[]) => string | undefined,
  ): (...all: unknown[]) => Promise<void>;
}

const variable = (...words: string[]) =>
  words
    .join('_')
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .toUpperCase();

/**
 * A command whose flags all have an environment variable: `allocate --timeout-wait` is SLIPWAY_ALLOCATE_TIMEOUT_WAIT.
 * Named when a flag is added, because commander looks for the variable only of flags that had one by then.
 */
export class SlipwayCommand extends Command {
  readonly words: string[];
  readonly exampleLines: string[] = [];
  /** The words that lead to it, like `tokens create`. */
  constructor(words: string) {
    super(words.slice(words.lastIndexOf(' ') + 1));
    this.words = words.split(' ');
  }
  /** Command lines that show its use, in `--help` and in the reference. */
  examples(...lines: string[]): this {
    this.exampleLines.push(...lines);
    return this.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  ${line}`)].join('\n'));
  }
  override addOption(option: Option): this {
    option.envVar ??= variable('slipway', ...this.words, option.name());
    return super.addOption(option);
  }
}

export type MakeCommand = (cli: Cli) => Command;
