/** What a command is given, and what it gives back. The commands know no process: main.ts joins them to one. */
import type { Command } from 'commander';
import type { ExitName } from './exit-codes.ts';
import type { Session } from './session.ts';
import type { Terminal } from './terminal.ts';

/** Nothing returned means that it worked. */
export type Work<Options> = (session: Session, options: Options, args: string[]) => Promise<ExitName | undefined>;

export interface Cli {
  terminal: Terminal;
  /** Makes an action of a command: opens the session from the flags, and reports the outcome as the exit status. */
  run<Options>(work: Work<Options>): (...all: unknown[]) => Promise<void>;
}

export type MakeCommand = (cli: Cli) => Command;
