/** The command line: `--config FILE` as a driver starts the agent, or the flags with which a person lets a machine join. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { withVariables } from '../base/flag-variables.ts';
import { type AgentConfig, configFrom, readConfigFile, UsageError } from './config.ts';
import { errorText } from './shape.ts';

export const usage = `Usage: slipway agent --server URL (--join-token T | --enrollment-token T) [options] [-- command …]
       slipway agent --config FILE
       slipway agent doctor (--config FILE | --server URL [--dir D]) [--ca FILE] [--json]

  --server URL           address of the control plane
  --join-token T         joins a pool; also read from SLIPWAY_JOIN_TOKEN
  --enrollment-token T   enrols an expected node; also read from SLIPWAY_ENROLLMENT_TOKEN
  --name N               the node's name (with a join token; default: this host's name)
  --base-url URL         where the node's own service is reached
  --ca FILE              an authority that vouches for the control plane (PEM); also read from SLIPWAY_CA
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
  'enrollment-token': { type: 'string' },
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
  'otlp-endpoint': 'SLIPWAY_OTLP_ENDPOINT',
};

/** With what the environment says of flags that were not given. A file that it names is not meant by whoever names a server. */
export function agentFlags<Values extends { server?: string | undefined; config?: string | undefined }>(
  given: Values,
  known: Parameters<typeof withVariables>[1],
  env: NodeJS.ProcessEnv,
): Values {
  const values = withVariables(given, known, env, { program: 'agent', named });
  return given.server === undefined ? values : { ...values, config: given.config };
}

/** Names are what fits a host name; of this host's own name everything else becomes a dash. */
export function nodeNameFrom(host: string): string {
  const name = host
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .slice(0, 63);
  return name.replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '') || 'node';
}

/** Null when only help was asked for. */
export function configFromCommandLine(args: string[], env: NodeJS.ProcessEnv): AgentConfig | null {
  const { values: given, positionals } = parsed(args);
  if (given.help) return null;
  const values = agentFlags(given, flags, env);
  if (values.config) return readConfigFile(values.config);
  const join_token = values['join-token'];
  return configFrom({
    server_url: values.server,
    join_token,
    enrollment_token: values['enrollment-token'],
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
