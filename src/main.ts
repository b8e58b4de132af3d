/** The entry point of `slipway serve`: settings, log, start-up message and signals. */
import { systemClock } from './base/clock.ts';
import { readSettings, SettingsError, serverUsage } from './base/settings/settings.ts';
import { createLog } from './base/telemetry/log.ts';
import { welcome } from './cli/render/welcome.ts';
import { readServerFile } from './contract/server-file.ts';
import { startFailureMessage } from './operations/runtime/server-start.ts';
import { redactorOf, startServer } from './server/start-server.ts';

/** A terminal and npm both pass on one Ctrl-C; a signal within this time is the same key press. */
const sameKeyMs = 1_000;

async function serve(): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv.includes('--help') || argv.includes('-h')) {
    process.stdout.write(`${serverUsage()}\n`);
    return;
  }
  // A closed pipe must not end the server.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const settings = readSettings(argv, process.env);
  const redact = redactorOf(await readServerFile(settings.config), settings);
  const log = createLog({ level: settings.log_level, redact });
  const server = await startServer(settings, log, {}, redact);
  process.stdout.write(welcome(server));
  server.lost.then((reason) => {
    log.fatal({ error: reason }, 'this server must stop');
    process.exit(1);
  });
  let stoppingSinceMs: number | undefined;
  const stop = (signal: string) => {
    const nowMs = systemClock.monotonicMs();
    if (stoppingSinceMs !== undefined) {
      if (nowMs - stoppingSinceMs > sameKeyMs) process.exit(130);
      return;
    }
    stoppingSinceMs = nowMs;
    log.info({ signal }, 'stopping');
    process.stdout.write('\n  Stopping …\n');
    server.stop().then(
      () => {
        process.stdout.write('  Stopped. Machines that are up stay up; the next start goes on with them.\n');
        process.exit(0);
      },
      (error) => {
        log.error({ error }, 'stopping failed');
        process.exit(1);
      },
    );
  };
  process.on('SIGINT', () => stop('SIGINT'));
  process.on('SIGTERM', () => stop('SIGTERM'));
}

function explainAndExit(error: unknown): void {
  process.stderr.write(`slipway: ${startFailureMessage(error)}\n`);
  process.exit(error instanceof SettingsError ? 2 : 1);
}

if (import.meta.main) serve().catch(explainAndExit);
