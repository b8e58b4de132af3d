/**
 * Entry point of `slipway relay`: reads the options, serves until a signal, and answers every held
 * heartbeat before it exits.
 */
import { systemClock } from '../base/clock.ts';
import { printableText } from '../base/redaction/printable.ts';
import { createRedactor } from '../base/redaction/redact.ts';
import { SettingsError } from '../base/settings/flag-values.ts';
import { createLog } from '../base/telemetry/log.ts';
import { type RelayOptions, readRelayOptions, relayUsage } from './options.ts';
import { describeStartFailure, startRelay } from './relay.ts';

const usageExitCode = 2;

function readCommandLine(): RelayOptions {
  try {
    const options = readRelayOptions(process.argv.slice(2), process.env);
    if (options) return options;
    process.stdout.write(relayUsage);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    process.stderr.write(`slipway relay: ${error.message}\n\n${relayUsage}`);
    process.exit(usageExitCode);
  }
}

const options = readCommandLine();
const redact = createRedactor([], options.token === null ? [] : [options.token]);
const log = createLog({ level: options.log_level, redact });
const relay = await startRelay(options, { clock: systemClock, log }).catch((error: Error) => {
  process.stderr.write(`slipway relay: could not start: ${printableText(describeStartFailure(error, options))}\n`);
  process.exit(1);
});
// Goes to standard error, because standard output carries only the log, as JSON lines.
process.stderr.write(
  `\n  Relay     ${relay.url}\n  Server    ${options.server_urls.join(', ')}\n  Batches   ${options.token ? 'by stream, or by POST while no stream is open' : 'by POST'}\n\n`,
);

// Ignore these signals: by default SIGHUP and SIGUSR2 end Node, and SIGUSR1 opens its debugger.
// With TLS, tls-files.ts also reloads the files at SIGHUP.
for (const signal of ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {});
let isStopping = false;
for (const signal of ['SIGTERM', 'SIGINT'] as const)
  process.on(signal, () => {
    if (isStopping) process.exit(130);
    isStopping = true;
    relay.stop().then(
      () => process.exit(0),
      (error) => {
        log.error({ error }, 'stopping failed');
        process.exit(1);
      },
    );
  });
