/** The agent's command line: drivers pass `--config FILE`, people who add a machine pass flags. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { argumentWarning, readSecretFile } from '../base/credentials/secret-file.ts';
import { insecureHttpVariable } from '../base/network/insecure-http.ts';
import { withVariables } from '../base/settings/flag-variables.ts';
import { otlpHeadersVariable, readOtlpHeaders } from '../base/settings/otlp-headers.ts';
import { type AgentConfig, configFrom, readConfigFile, UsageError } from './state/config.ts';
import { errorText } from './state/shape.ts';

export const usage = `Usage: slipway agent --server URL (--join-token-file F | --enrollment-token-file F) [options] [-- command …]
       slipway agent --config FILE
       slipway agent doctor (--config FILE | --server URL [--dir D]) [--ca FILE] [--allow-insecure-http]
                            [--patience SECONDS] [--json]

  --server URL           address of the control plane
  --join-token-file F    file with a token that joins a pool (- for standard input); or set SLIPWAY_JOIN_TOKEN to the token
  --enrollment-token-file F
                         file with a token that enrols an expected node (- for standard input); or set SLIPWAY_ENROLLMENT_TOKEN to the token
  --join-token T, --enrollment-token T
                         the tokens themselves; every user of this host can read arguments, so prefer the files
  --name N               the node's name (with a join token; default: this host's name)
  --base-url URL         address at which the node's own service is reached
  --ca FILE              certificate authority (PEM) to trust for the control plane; also read from SLIPWAY_CA
  --allow-insecure-http  allow sending credentials to other hosts over http://; also read from SLIPWAY_ALLOW_INSECURE_HTTP
  --stream               keep one connection open for heartbeats and tasks, instead of one call for each
  --stop-ends-command    end the command at SIGTERM too; without this flag only SIGINT and the server end it, and
                         the next agent on this directory adopts it
  --otlp-endpoint URL    an OpenTelemetry collector that receives a span for each task; also read from SLIPWAY_OTLP_ENDPOINT;
                         SLIPWAY_OTLP_HEADERS has headers for it, like authorization=Bearer%20…,name=value
  --dir D                directory for the agent's state (default: .slipway-agent)
  --patience SECONDS     doctor: how long each layer may take (default: 10, at most 60)
  --json                 doctor: print one JSON document
  -- command …           command to supervise; the node is ready when the command has run for a moment, or,
                         with SLIPWAY_READY_LINE=1 in the environment, when it prints SLIPWAY_READY

Each flag has an environment variable: SLIPWAY_AGENT_ and the flag's name, like SLIPWAY_AGENT_BASE_URL, or the one named above.
The flag wins.

An agent that is restarted with the same directory needs no token: it uses its stored credential.
`;

export const flags = {
  config: { type: 'string' },
  server: { type: 'string' },
  'join-token': { type: 'string' },
  'join-token-file': { type: 'string' },
  'enrollment-token': { type: 'string' },
  'enrollment-token-file': { type: 'string' },
  'allow-insecure-http': { type: 'boolean' },
  name: { type: 'string' },
  'base-url': { type: 'string' },
  ca: { type: 'string' },
  'otlp-endpoint': { type: 'string' },
  stream: { type: 'boolean' },
  'stop-ends-command': { type: 'boolean' },
  dir: { type: 'string' },
  help: { type: 'boolean' },
} as const;

const variableNames = {
  'join-token': 'SLIPWAY_JOIN_TOKEN',
  'enrollment-token': 'SLIPWAY_ENROLLMENT_TOKEN',
  ca: 'SLIPWAY_CA',
  'allow-insecure-http': insecureHttpVariable,
  'otlp-endpoint': 'SLIPWAY_OTLP_ENDPOINT',
};

/**
 * Adds flags from the environment. A config file from the environment is ignored if --server is
 * given.
 */
export function agentFlags<Values extends { server?: string | undefined; config?: string | undefined }>(
  typedFlags: Values,
  knownFlags: Parameters<typeof withVariables>[1],
  env: NodeJS.ProcessEnv,
): Values {
  const values = withVariables(typedFlags, knownFlags, env, { program: 'agent', named: variableNames });
  return typedFlags.server === undefined ? values : { ...values, config: typedFlags.config };
}

const maxNameLength = 63;

/** Turns a host name into a valid node name: invalid characters become dashes. */
export function nodeNameFrom(host: string): string {
  const name = host
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .slice(0, maxNameLength);
  return name.replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '') || 'node';
}

type TokenFlag = 'join-token' | 'enrollment-token';

/**
 * A token file wins over a token from the environment. A token flag with a token file is an error,
 * even if the file is named in the environment.
 */
function tokenFrom(
  flag: TokenFlag,
  values: Partial<Record<TokenFlag | `${TokenFlag}-file`, string>>,
  isTyped: boolean,
) {
  const path = values[`${flag}-file`];
  if (path === undefined) return values[flag];
  if (isTyped) throw new UsageError(`give --${flag} or --${flag}-file, not both`);
  try {
    return readSecretFile(path);
  } catch (error) {
    throw new UsageError(`--${flag}-file ${path}: ${errorText(error)}`);
  }
}

/** Returns null for --help. */
export function configFromCommandLine(
  args: string[],
  env: NodeJS.ProcessEnv,
  warn: (text: string) => void = () => {},
): AgentConfig | null {
  const { values: typedFlags, positionals } = parseFlags(args);
  if (typedFlags.help) return null;
  const values = agentFlags(typedFlags, flags, env);
  if (values.config) return readConfigFile(values.config);
  for (const flag of ['join-token', 'enrollment-token'] as const)
    if (typedFlags[flag] !== undefined) warn(argumentWarning(flag, variableNames[flag]));
  const join_token = tokenFrom('join-token', values, typedFlags['join-token'] !== undefined);
  const otlp_headers = readOtlpHeaders(env[otlpHeadersVariable], (reason) => new UsageError(reason));
  const config = configFrom({
    server_url: values.server,
    join_token,
    enrollment_token: tokenFrom('enrollment-token', values, typedFlags['enrollment-token'] !== undefined),
    allow_insecure_http: values['allow-insecure-http'],
    name: values.name ?? (join_token ? nodeNameFrom(hostname()) : null),
    base_url: values['base-url'],
    stream: values.stream,
    stop_ends_command: values['stop-ends-command'],
    otlp_endpoint: values['otlp-endpoint'],
    ca: readCertificateFile(values.ca),
    dir: resolve(values.dir ?? '.slipway-agent'),
    work_dir: process.cwd(),
    command: positionals.length > 0 ? positionals : null,
  });
  return { ...config, otlp_headers };
}

export function readCertificateFile(path: string | undefined): string | null {
  if (!path) return null;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`cannot read the certificate ${path}: ${errorText(error)}`);
  }
}

function parseFlags(args: string[]) {
  try {
    return parseArgs({ args, options: flags, allowPositionals: true });
  } catch (error) {
    throw new UsageError(errorText(error));
  }
}
