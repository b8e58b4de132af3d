/**
 * The agent's command line: `--config FILE` for drivers, or flags for a person who lets a machine
 * join.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { argumentWarning, readSecretFile } from '../base/credentials/secret-file.ts';
import { insecureHttpVariable } from '../base/network/insecure-http.ts';
import { withVariables } from '../base/settings/flag-variables.ts';
import { type AgentConfig, configFrom, readConfigFile, UsageError } from './state/config.ts';
import { errorText } from './state/shape.ts';

export const usage = `Usage: slipway agent --server URL (--join-token-file F | --enrollment-token-file F) [options] [-- command …]
       slipway agent --config FILE
       slipway agent doctor (--config FILE | --server URL [--dir D]) [--ca FILE] [--allow-insecure-http] [--json]

  --server URL           address of the control plane
  --join-token-file F    holds a token that joins a pool; - reads standard input; SLIPWAY_JOIN_TOKEN is the token itself
  --enrollment-token-file F
                         holds a token that enrols an expected node; - reads standard input; SLIPWAY_ENROLLMENT_TOKEN is the token itself
  --join-token T, --enrollment-token T
                         the tokens themselves; every user of this host can read them here, so prefer the files
  --name N               the node's name (with a join token; default: this host's name)
  --base-url URL         where the node's own service is reached
  --ca FILE              an authority that vouches for the control plane (PEM); also read from SLIPWAY_CA
  --allow-insecure-http  send credentials to other hosts also over http://; also read from SLIPWAY_ALLOW_INSECURE_HTTP
  --stream               keep one connection open for beats and tasks, instead of a call for each
  --otlp-endpoint URL    an OpenTelemetry collector that is sent what was done for tasks; also read from SLIPWAY_OTLP_ENDPOINT
  --dir D                where the agent keeps its state (default: .slipway-agent)
  -- command …           what to supervise; the node is ready once it has been up for a moment, or,
                         with SLIPWAY_READY_LINE=1 in the environment, once it prints SLIPWAY_READY

Each flag has an environment variable: SLIPWAY_AGENT_ and its name, like SLIPWAY_AGENT_BASE_URL, or the one named above.
The flag wins.

Started again on the same directory it needs no token: it goes on with the credential it has.
`;

const flags = {
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
  dir: { type: 'string' },
  help: { type: 'boolean' },
} as const;

const named = {
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
  given: Values,
  known: Parameters<typeof withVariables>[1],
  env: NodeJS.ProcessEnv,
): Values {
  const values = withVariables(given, known, env, { program: 'agent', named });
  return given.server === undefined ? values : { ...values, config: given.config };
}

/** Turns a host name into a valid node name; other characters become dashes. */
export function nodeNameFrom(host: string): string {
  const name = host
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .slice(0, 63);
  return name.replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '') || 'node';
}

type TokenFlag = 'join-token' | 'enrollment-token';

/** A named file takes precedence over the environment. */
function tokenFrom(flag: TokenFlag, values: Partial<Record<TokenFlag | `${TokenFlag}-file`, string>>, typed: boolean) {
  const path = values[`${flag}-file`];
  if (path === undefined) return values[flag];
  if (typed) throw new UsageError(`give --${flag} or --${flag}-file, not both`);
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
  const { values: given, positionals } = parsed(args);
  if (given.help) return null;
  const values = agentFlags(given, flags, env);
  if (values.config) return readConfigFile(values.config);
  for (const flag of ['join-token', 'enrollment-token'] as const)
    if (given[flag] !== undefined) warn(argumentWarning(flag, named[flag]));
  const join_token = tokenFrom('join-token', values, given['join-token'] !== undefined);
  return configFrom({
    server_url: values.server,
    join_token,
    enrollment_token: tokenFrom('enrollment-token', values, given['enrollment-token'] !== undefined),
    allow_insecure_http: values['allow-insecure-http'],
    name: values.name ?? (join_token ? nodeNameFrom(hostname()) : null),
    base_url: values['base-url'],
    stream: values.stream,
    otlp_endpoint: values['otlp-endpoint'],
    ca: readAuthority(values.ca),
    dir: resolve(values.dir ?? '.slipway-agent'),
    work_dir: process.cwd(),
    command: positionals.length > 0 ? positionals : null,
  });
}

export function readAuthority(path: string | undefined): string | null {
  if (!path) return null;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`cannot read the certificate ${path}: ${errorText(error)}`);
  }
}

function parsed(args: string[]) {
  try {
    return parseArgs({ args, options: flags, allowPositionals: true });
  } catch (error) {
    throw new UsageError(errorText(error));
  }
}
