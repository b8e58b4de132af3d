/**
 * Reads the relay's command-line options. Secrets come from files or the environment, where other
 * users cannot see them.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { insecureHttpProblem, insecureHttpVariable, isSentInClear } from '../base/network/insecure-http.ts';
import { httpUrlFrom, levelFrom, portFrom, refuseOpenListening, SettingsError } from '../base/settings/flag-values.ts';
import { withVariables } from '../base/settings/flag-variables.ts';

export interface RelayOptions {
  /** URLs of the control plane. The relay tries the next if one does not answer. */
  server_urls: readonly [string, ...string[]];
  ca: string | null;
  token: string | null;
  host: string;
  port: number;
  tls_cert: string | null;
  tls_key: string | null;
  behind_proxy: boolean;
  log_level: string;
}

export const relayUsage = `Usage: slipway relay --server URL [options]

  --server URL           URL of the control plane; may be given several times
  --token-file FILE      holds the token of a relay (- reads standard input): batches are then sent by one stream; also read from SLIPWAY_RELAY_TOKEN
  --ca FILE              the certificate authority of the control plane (PEM)
  --allow-insecure-http  send credentials to other hosts also over http://; also read from SLIPWAY_ALLOW_INSECURE_HTTP
  --host HOST            the address to listen on (default 127.0.0.1)
  --port PORT            the port to listen on (default 7071)
  --tls-cert FILE        certificate for listening beyond loopback
  --tls-key FILE         the key of the certificate
  --behind-proxy         a proxy in front of the relay terminates TLS
  --log-level LEVEL      trace, debug, info, warn, error or silent (default info)

Each flag has an environment variable: SLIPWAY_RELAY_ and its name, like SLIPWAY_RELAY_TLS_CERT. Separate several
servers by commas. A flag overrides its variable.
`;

const flags = {
  server: { type: 'string', multiple: true },
  'token-file': { type: 'string' },
  ca: { type: 'string' },
  'allow-insecure-http': { type: 'boolean' },
  host: { type: 'string' },
  port: { type: 'string' },
  'tls-cert': { type: 'string' },
  'tls-key': { type: 'string' },
  'behind-proxy': { type: 'boolean' },
  'log-level': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

function parseFlags(args: string[], env: Record<string, string | undefined>) {
  try {
    return withVariables(parseArgs({ args, options: flags }).values, flags, env, {
      program: 'relay',
      named: { 'allow-insecure-http': insecureHttpVariable },
    });
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
}

function readText(flag: string, path: string | undefined): string | null {
  if (path === undefined) return null;
  try {
    return readFileSync(flag === 'token-file' && path === '-' ? 0 : path, 'utf8').trim();
  } catch (error) {
    throw new SettingsError(`--${flag} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Returns null for --help. */
export function readRelayOptions(args: string[], env: Record<string, string | undefined>): RelayOptions | null {
  const values = parseFlags(args, env);
  if (values.help) return null;
  const [first, ...others] = (values.server ?? []).map((url) => {
    httpUrlFrom('server', url);
    return url.replace(/\/+$/, '');
  });
  if (first === undefined) throw new SettingsError('--server is missing');
  const inClear = [first, ...others].find(isSentInClear);
  if (inClear && !values['allow-insecure-http']) throw new SettingsError(insecureHttpProblem(inClear));
  const token = readText('token-file', values['token-file']) ?? (env.SLIPWAY_RELAY_TOKEN || null);
  // A user who passes a file wants a token. Without a token the relay would silently use POST.
  if (token === '') throw new SettingsError('--token-file holds no token');
  const options: RelayOptions = {
    server_urls: [first, ...others],
    ca: readText('ca', values.ca),
    token,
    host: values.host ?? '127.0.0.1',
    port: portFrom(values.port ?? '7071'),
    tls_cert: values['tls-cert'] ?? null,
    tls_key: values['tls-key'] ?? null,
    behind_proxy: values['behind-proxy'] ?? false,
    log_level: levelFrom(values['log-level'] ?? 'info'),
  };
  refuseOpenListening(options);
  return options;
}
