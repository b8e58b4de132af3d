/**
 * The entry point of the `slipway` command: passes this process's arguments, streams and signals to
 * `runCommandLine`.
 */
import { setDefaultCACertificates } from 'node:tls';
import { loadCommands } from './catalogue.ts';
import { runCommandLine } from './run.ts';
import { exitCodes } from './terminal/exit-codes.ts';
import { showCursor } from './terminal/live-view.ts';
import { outputOf } from './terminal/terminal.ts';

const { env: environment, argv } = process;
const terminal = { out: outputOf(process.stdout, environment), err: outputOf(process.stderr, environment) };
const interrupt = new AbortController();

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (!interrupt.signal.aborted) return interrupt.abort();
    // The second signal ends the process at once.
    if (terminal.out.interactive) terminal.out.write(showCursor);
    process.exit(exitCodes.interrupted.code);
  });

// `slipway nodes | head` closes the pipe early, which is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(exitCodes.ok.code);
});

const args = argv.slice(2);
process.exitCode = await runCommandLine({
  words: args,
  commands: await loadCommands(args),
  environment,
  working_directory: process.cwd(),
  terminal,
  trust: setDefaultCACertificates,
  signal: interrupt.signal,
});
