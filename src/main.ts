/** The entry point of `slipway serve`: settings, log, start-up message and signals. */
import { systemClock } from './base/clock.ts';
import { SettingsError } from './base/settings/flag-values.ts';
import { readSettings, serverUsage } from './base/settings/settings.ts';
import { createLog, type Log } from './base/telemetry/log.ts';
import { welcome } from './cli/render/welcome.ts';
import { readServerFile } from './contract/server-file.ts';
import { startFailureMessage } from './operations/runtime/start-failure.ts';
import { createServerRedactor, type RunningServer, startServer } from './server/start-server.ts';

/** A terminal and npm both pass on one Ctrl-C; a signal within this time is the same key press. */
const sameKeyMs = 1_000;

/** Text for people. Standard output has only the log, in lines of JSON. */
const say = (text: string): void => void process.stderr.write(text);

/** Without a listener, each of these would end the process and leave its database running. */
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGXCPU'] as const;
/** Node ends at SIGUSR2, and opens a debugger at SIGUSR1 if it runs without --disable-sigusr1. */
const ignoredSignals = ['SIGUSR1', 'SIGUSR2'] as const;

/**
 * Listens from the first moment, so that a signal during the start ends what the start has opened.
 * Returns a signal that the first stop request aborts; a second request ends the process at once.
 */
function listenForStop(log: Log): AbortSignal {
  const stopping = new AbortController();
  let sinceMs = 0;
  const stop = (signal: NodeJS.Signals) => {
    const nowMs = systemClock.monotonicMs();
    if (stopping.signal.aborted) {
      if (nowMs - sinceMs > sameKeyMs) process.exit(130);
      return;
    }
    sinceMs = nowMs;
    log.info({ signal }, 'stopping');
    say('\n  Stopping …\n');
    stopping.abort(signal);
  };
  for (const signal of stopSignals) process.on(signal, stop);
  for (const signal of ignoredSignals) process.on(signal, () => {});
  return stopping.signal;
}

async function stopServer(server: RunningServer, log: Log, signal: NodeJS.Signals): Promise<never> {
  try {
    if (signal === 'SIGTERM') await server.drain();
    await server.stop();
  } catch (error) {
    log.error({ error }, 'stopping failed');
    process.exit(1);
  }
  say('  Stopped. Machines that are up stay up; the next start goes on with them.\n');
  process.exit(0);
}

async function serve(): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv.includes('--help') || argv.includes('-h')) {
    process.stdout.write(`${serverUsage()}\n`);
    return;
  }
  // A closed pipe must not end the server.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const settings = readSettings(argv, process.env);
  const redact = createServerRedactor(await readServerFile(settings.config), settings);
  const log = createLog({ level: settings.log_level, redact });
  const stopRequest = listenForStop(log);
  let isReloadRequested = false;
  let reload = async () => {
    isReloadRequested = true;
  };
  process.on('SIGHUP', () => void reload());
  let server: RunningServer;
  try {
    server = await startServer(settings, log, {}, { redact, signal: stopRequest });
  } catch (error) {
    if (error !== stopRequest.reason) throw error;
    say('  Stopped before the start was complete.\n');
    process.exit(0);
  }
  reload = server.reload;
  if (isReloadRequested) void reload();
  say(welcome(server));
  server.lost.then((reason) => {
    log.fatal({ error: reason }, 'this server must stop');
    process.exit(1);
  });
  stopRequest.addEventListener('abort', () => void stopServer(server, log, stopRequest.reason));
}

function explainAndExit(error: unknown): void {
  process.stderr.write(`slipway: ${startFailureMessage(error)}\n`);
  process.exit(error instanceof SettingsError ? 2 : 1);
}

if (import.meta.main) serve().catch(explainAndExit);
