/** Runs one command line, from its words to its exit status, without touching the process. */
import { inspect } from 'node:util';
import { Command, CommanderError, type OptionValues } from 'commander';
import { systemClock } from '../base/clock.ts';
import { argumentWarning } from '../base/credentials/secret-file.ts';
import { packageRoot, packageVersion } from '../base/files/package-root.ts';
import { programName } from '../base/files/program-name.ts';
import { newCorrelationId } from '../base/ids.ts';
import { trustedCertificates } from '../base/network/trusted-certificates.ts';
import type { CommandGroup } from './catalogue.ts';
import type { Cli, Work } from './command.ts';
import { openSession, type Session } from './connection/session.ts';
import { resolveConnection, type Setting } from './connection/settings.ts';
import { createProgram, dropUnsetVariables, type SharedOptions } from './program.ts';
import { type ExitName, exitCodes } from './terminal/exit-codes.ts';
import { describeFailure, failureJson, failureLines, isId } from './terminal/failure.ts';
import { fitOf, printJson, printLines, type Terminal } from './terminal/terminal.ts';

const version = packageVersion();

export interface Host {
  words: string[];
  /** Must include the command that the words name. */
  commands: readonly CommandGroup[];
  /** Must be `process.env`: commander reads the variables of flags from there. */
  environment: Record<string, string | undefined>;
  working_directory: string;
  terminal: Terminal;
  /** Replaces the default certificate authorities. */
  trust(certificates: string[]): void;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
}

const connectionFlags = { server: '--server', ca: '--ca', tokenFile: '--token-file', dataDir: '--data-dir' } as const;

/**
 * Makes command lines to copy. They repeat the connection flags that the user typed, but never a
 * token.
 */
const commandLineOf = (program: Command, host: Host) => {
  const typedFlags = Object.entries(connectionFlags).flatMap(([key, flag]) =>
    program.getOptionValueSource(key) === 'cli' ? [flag, String(program.getOptionValue(key))] : [],
  );
  return (...words: string[]) =>
    [programName(host.environment, host.working_directory), ...words, ...typedFlags].join(' ');
};

function settingOf(program: Command, key: keyof SharedOptions): Setting | undefined {
  const value: unknown = program.getOptionValue(key);
  if (typeof value !== 'string') return undefined;
  return { value, source: program.getOptionValueSource(key) === 'cli' ? 'flag' : 'environment' };
}

const flagsOf = (command: Command | null) => command?.options.flatMap(({ long }) => long ?? []) ?? [];

/** Returns the first argument if the command takes an id there. */
const idArgument = (command: Command | null): string | null =>
  command?.registeredArguments[0]?.name() === 'id' ? (command.args[0] ?? null) : null;

/** Returns the exit status. */
export async function runCommandLine(host: Host): Promise<number> {
  const { environment, working_directory, terminal, signal } = host;
  const correlation_id = newCorrelationId();
  let server: string | null = null;
  let searched_directory: string | undefined;
  let ranCommand: Command | null = null;
  let exit: ExitName = 'ok';

  function openSessionFromFlags(serverArgument: string | undefined): Session {
    const shared = program.opts<SharedOptions>();
    server = serverArgument ?? shared.server;
    const connection = resolveConnection(
      {
        server,
        ca: shared.ca,
        token: settingOf(program, 'token'),
        token_file: settingOf(program, 'tokenFile'),
        data_dir: settingOf(program, 'dataDir'),
        allow_insecure_http: shared.allowInsecureHttp === true,
      },
      { environment, working_directory, clone: packageRoot },
    );
    if (settingOf(program, 'token')?.source === 'flag')
      printLines(terminal.err, [argumentWarning('token', 'SLIPWAY_TOKEN')]);
    server = connection.server;
    searched_directory = connection.searched_directory;
    const authorities = trustedCertificates(connection.ca);
    if (authorities) host.trust(authorities);
    return openSession({
      connection,
      correlation_id,
      clock: systemClock,
      signal,
      terminal,
      json: shared.json === true,
      commandLine: commandLineOf(program, host),
    });
  }

  const cli: Cli = {
    terminal,
    run<Options>(work: Work<Options>, readServer: (args: string[]) => string | undefined = () => undefined) {
      return async (...all: unknown[]) => {
        const command = all.at(-1);
        if (!(command instanceof Command)) throw new Error('the last argument of an action is its command');
        ranCommand = command;
        const options = command.opts<Options & OptionValues>();
        exit = (await work(openSessionFromFlags(readServer(command.args)), options, command.args)) ?? 'ok';
      };
    },
  };
  const program = createProgram(cli, String(version), host.commands);
  dropUnsetVariables(program, environment);

  try {
    await program.parseAsync(host.words, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) return exitCodes[error.exitCode === 0 ? 'ok' : 'usage'].code;
    const { json, debug } = program.opts<SharedOptions>();
    const report = describeFailure(error, {
      server,
      correlation_id,
      searched_directory,
      id: host.words.find(isId) ?? idArgument(ranCommand),
      flags: flagsOf(ranCommand),
      commandLine: commandLineOf(program, host),
    });
    if (json) printJson(terminal.err, failureJson(report));
    else if (report.exit !== 'interrupted') printLines(terminal.err, failureLines(report, fitOf(terminal.err)));
    if (debug) printLines(terminal.err, [inspect(error)]);
    exit = report.exit;
  }
  return exitCodes[exit].code;
}
