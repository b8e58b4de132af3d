/** The `slipway` command: joins the program to this process, and nothing else does. */
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join, relative, resolve } from 'node:path';
import { Command, CommanderError, type OptionValues } from 'commander';
import { systemClock } from '../base/clock.ts';
import { newCorrelationId } from '../base/ids.ts';
import type { Cli, Work } from './command.ts';
import { type ExitName, exitCodes } from './exit-codes.ts';
import { reportFailure } from './failure.ts';
import { showCursor } from './live-view.ts';
import { createProgram, forgetRefusals, type SharedOptions } from './program.ts';
import { failureJson, failureLines } from './render/failure.ts';
import { openSession, type Session } from './session.ts';
import { type Given, resolveConnection } from './settings.ts';
import { kindOfId } from './subject.ts';
import { fitOf, printJson, printLines, surfaceOf } from './terminal.ts';

const clone = resolve(import.meta.dirname, '../..');
const { env: environment, argv } = process;
const terminal = { out: surfaceOf(process.stdout, environment), err: surfaceOf(process.stderr, environment) };
const correlation_id = newCorrelationId();
const interrupt = new AbortController();
let server: string | null = null;
let ran: Command | null = null;

const leave = (exit: ExitName) => {
  process.exitCode = exitCodes[exit].code;
};

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (!interrupt.signal.aborted) return interrupt.abort();
    // The second one is not asked to wait for anything.
    if (terminal.out.interactive) terminal.out.write(showCursor);
    process.exit(exitCodes.interrupted.code);
  });

// `slipway nodes | head`: the reader has what it wanted.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(exitCodes.ok.code);
});

/** How a person here would start us: by name where we are installed, else by the way to the clone. */
function ownName(): string {
  const installed = (environment.PATH ?? '')
    .split(delimiter)
    .some((dir) => dir !== '' && existsSync(join(dir, 'slipway')));
  if (installed) return 'slipway';
  const path = relative(process.cwd(), join(clone, 'bin/slipway'));
  return path.startsWith('..') ? join(clone, 'bin/slipway') : `./${path}`;
}

const connectionFlags = { server: '--server', tokenFile: '--token-file', dataDir: '--data-dir' } as const;

/** Repeats where to call, if that was typed: the line is then right as it stands. A token is never repeated. */
const commandLineOf = (program: Command) => {
  const typed = Object.entries(connectionFlags).flatMap(([key, flag]) =>
    program.getOptionValueSource(key) === 'cli' ? [flag, String(program.getOptionValue(key))] : [],
  );
  return (...words: string[]) => [ownName(), ...words, ...typed].join(' ');
};

function given(program: Command, key: keyof SharedOptions): Given | undefined {
  const value: unknown = program.getOptionValue(key);
  if (typeof value !== 'string') return undefined;
  return { value, source: program.getOptionValueSource(key) === 'cli' ? 'flag' : 'environment' };
}

function sessionFromFlags(): Session {
  const shared = program.opts<SharedOptions>();
  server = shared.server;
  const connection = resolveConnection(
    {
      server: shared.server,
      token: given(program, 'token'),
      token_file: given(program, 'tokenFile'),
      data_dir: given(program, 'dataDir'),
    },
    { environment, working_directory: process.cwd(), clone },
  );
  server = connection.server;
  return openSession({
    connection,
    correlation_id,
    clock: systemClock,
    signal: interrupt.signal,
    terminal,
    json: shared.json === true,
    commandLine: commandLineOf(program),
  });
}

const cli: Cli = {
  terminal,
  run<Options>(work: Work<Options>) {
    return async (...all: unknown[]) => {
      const command = all.at(-1);
      if (!(command instanceof Command)) throw new Error('an action is called with its command last');
      ran = command;
      const options = command.opts<Options & OptionValues>();
      leave((await work(sessionFromFlags(), options, command.args)) ?? 'ok');
    };
  },
};

const flagsOf = (command: Command | null) => command?.options.flatMap(({ long }) => long ?? []) ?? [];

const { version } = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8'));
const program = createProgram(cli, String(version));
forgetRefusals(program, environment);

try {
  await program.parseAsync(argv);
} catch (error) {
  if (error instanceof CommanderError) leave(error.exitCode === 0 ? 'ok' : 'usage');
  else {
    const { json, debug } = program.opts<SharedOptions>();
    const report = reportFailure(error, {
      server,
      correlation_id,
      id: argv.find((word) => kindOfId(word) !== null) ?? null,
      flags: flagsOf(ran),
      commandLine: commandLineOf(program),
    });
    if (json) printJson(terminal.err, failureJson(report));
    else if (report.exit !== 'interrupted') printLines(terminal.err, failureLines(report, fitOf(terminal.err)));
    if (debug) console.error(error);
    leave(report.exit);
  }
}
