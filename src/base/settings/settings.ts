/** Reads the server's settings once, at startup, from flags and their environment variables. */
import { parseArgs } from 'node:util';
import { tokenWeakness } from '../credentials/token-weakness.ts';
import {
  type BackupSchedule,
  backupScheduleFrom,
  connectionsFrom,
  databaseUrlFrom,
  defaultDrainSeconds,
  drainSecondsFrom,
  engineUrlFrom,
  httpUrlFrom,
  levelFrom,
  portFrom,
  proxiesFrom,
  refuseOpenListening,
  SettingsError,
  secureUrlFrom,
} from './flag-values.ts';
import { type Environment, isYes, readVariable } from './flag-variables.ts';
import { type OtlpHeaders, otlpHeadersVariable, readOtlpHeaders } from './otlp-headers.ts';

export interface ServerSettings {
  host: string;
  port: number;
  data_dir: string;
  /** Null for the embedded database. */
  database_url: string | null;
  /** The same database with the role that owns the tables; null if `database_url` has that role. */
  owner_database_url: string | null;
  /** The connection limit of this replica, over all its connection pools. */
  database_connections: number;
  public_url: string | null;
  public_ca: string | null;
  nodes_dir: string | null;
  /** The path of the key file; null for keys.json in the data directory. */
  key_file: string | null;
  tls_cert: string | null;
  tls_key: string | null;
  behind_proxy: boolean;
  /** Addresses and networks whose X-Forwarded-* headers are trusted. */
  trusted_proxies: string[];
  allow_local_driver: boolean;
  docker_host: string;
  docker_cert_dir: string | null;
  docker_auth_file: string | null;
  docker_allow_host_access: boolean;
  /** Null for the default EC2 URLs. */
  ec2_endpoint: string | null;
  /** Null for Azure's public cloud. */
  azure_endpoint: string | null;
  azure_allow_roles_anywhere: boolean;
  /**
   * Target heartbeats per second and replica. The assigned intervals grow with the fleet, so that
   * the actual rate does not exceed this target.
   */
  beat_rate: number;
  /** A console session ends after this long without use. */
  session_idle_seconds: number;
  /** A console session ends this long after sign-in, even if it is used. */
  session_max_seconds: number;
  /** Failed tokens that one address may send before it is rate-limited. */
  token_failures: number;
  /** Lifetime of an agent's credential; 0 for unlimited. */
  credential_seconds: number;
  /** How long after its expiry a credential can still be exchanged for a new one. */
  credential_grace_seconds: number;
  /** Age at which the task signing key is rotated; 0 to rotate only on request. */
  task_key_seconds: number;
  /** How long a task key is announced before it signs, and accepted after its successor signs. */
  task_key_overlap_seconds: number;
  /** How long the server serves after SIGTERM while `/readyz` answers 503. */
  drain_seconds: number;
  /** Whether the operator declares that the database was restored since the last start. */
  restored: boolean;
  /** Null without scheduled backups. */
  backups: BackupSchedule | null;
  log_level: string;
  /** The OTLP collector of traces, or null. */
  otlp_endpoint: string | null;
  otlp_logs_endpoint: string | null;
  /** Sent to both collectors, and never shown or logged. */
  otlp_headers: OtlpHeaders;
  loki_endpoint: string | null;
  /** The path of slipway.yaml, or null. */
  config: string | null;
  admin_token: string | null;
  /** The source of each setting, by name: the flag, the variable, or `default`. */
  sources: Record<string, string>;
}

interface Flag {
  type: 'string' | 'boolean';
  value?: string;
  says: string;
}

export const serverFlags: Record<string, Flag> = {
  host: {
    type: 'string',
    value: '127.0.0.1',
    says: 'address to listen on; any but a loopback address requires TLS or --behind-proxy',
  },
  port: { type: 'string', value: '7070', says: 'port to listen on; 0 picks a free one' },
  'data-dir': {
    type: 'string',
    value: '.slipway',
    says: 'directory of the embedded database, local nodes and the admin token',
  },
  'database-url': {
    type: 'string',
    says: 'use this PostgreSQL (14 to 18) instead of the embedded one; list several servers in one URL: postgres://user@a,b/name',
  },
  'owner-database-url': {
    type: 'string',
    says: 'URL of the same database, with the role that owns the tables; needed if the role of --database-url may only use them',
  },
  'database-connections': {
    type: 'string',
    value: '29',
    says: 'maximum number of connections of this replica to the database, at least 12; max_connections of PostgreSQL must cover all replicas',
  },
  'public-url': {
    type: 'string',
    says: 'URL under which agents and people reach this server, if it differs from the address to listen on',
  },
  'public-ca': {
    type: 'string',
    says: 'certificate authority (PEM) by which launched machines verify the server at --public-url',
  },
  'nodes-dir': {
    type: 'string',
    says: 'directory of local nodes. Default with the embedded database: the subdirectory nodes/ of the data directory. Default with --database-url: a directory outside the data directory that all replicas on this host share',
  },
  'key-file': {
    type: 'string',
    says: 'keys that encrypt secrets and sign evidence, kept outside the database; by default keys.json in the data directory',
  },
  'tls-cert': { type: 'string', says: 'certificate file (PEM)' },
  'tls-key': { type: 'string', says: 'key file (PEM)' },
  'behind-proxy': { type: 'boolean', says: 'a proxy in front of the server terminates TLS and forwards Host' },
  'trusted-proxies': {
    type: 'string',
    says: 'addresses and networks of the proxies in front of the server, like 10.0.0.5,10.1.0.0/16; the words `loopback` and `private` are accepted as entries. Default if --host is a loopback address: loopback',
  },
  'allow-local-driver': {
    type: 'boolean',
    says: 'allow pools that run commands on this host, even if --host is not a loopback address',
  },
  'docker-host': {
    type: 'string',
    value: 'unix:///var/run/docker.sock',
    says: 'container engine (Docker or Podman) of docker pools that do not set docker_host',
  },
  'docker-cert-dir': {
    type: 'string',
    says: 'directory with ca.pem, cert.pem and key.pem for container engines that are reached over TLS',
  },
  'docker-auth-file': {
    type: 'string',
    says: 'credentials for image registries, a file written by `docker login` (config.json)',
  },
  'docker-allow-host-access': {
    type: 'boolean',
    says: 'let docker pools run privileged containers and mount system directories and the root directory of the host',
  },
  'azure-endpoint': {
    type: 'string',
    says: 'Azure resource manager of aks pools, like https://management.chinacloudapi.cn; default: the public cloud',
  },
  'azure-allow-roles-anywhere': {
    type: 'boolean',
    says: 'let aks pools assign roles outside their own clusters, with the rights of this server',
  },
  'ec2-endpoint': {
    type: 'string',
    says: 'URL of the EC2 API, or of a compatible one, that ec2 pools call; default: the AWS endpoints',
  },
  config: { type: 'string', says: 'YAML file with runtime classes, default budgets and the brake; see slipway.yaml' },
  'otlp-endpoint': {
    type: 'string',
    says: 'OpenTelemetry collector for traces (OTLP over HTTP, like http://localhost:4318)',
  },
  'otlp-logs-endpoint': {
    type: 'string',
    says: 'OpenTelemetry collector that also receives the logs of nodes; `/v1/logs` is appended',
  },
  'loki-endpoint': {
    type: 'string',
    says: 'Loki (like http://localhost:3100) that also receives the logs of nodes; `/loki/api/v1/push` is appended',
  },
  'beat-rate': {
    type: 'string',
    value: '5000',
    says: 'target heartbeats per second per replica; the larger the fleet, the longer the intervals that the server assigns',
  },
  'session-idle-seconds': {
    type: 'string',
    value: '7200',
    says: 'a console session ends after this long without use',
  },
  'session-max-seconds': {
    type: 'string',
    value: '43200',
    says: 'a console session ends this long after sign-in, even if it is used',
  },
  'token-failures': {
    type: 'string',
    value: '20',
    says: 'failed tokens that one address may send before it is rate-limited',
  },
  'credential-seconds': {
    type: 'string',
    value: '86400',
    says: 'lifetime of an agent credential; agents rotate theirs earlier. 0: unlimited',
  },
  'credential-grace-seconds': {
    type: 'string',
    value: '2592000',
    says: 'how long after its expiry a credential can still be exchanged for a new one',
  },
  'task-key-seconds': {
    type: 'string',
    value: '7776000',
    says: 'age at which the task signing key is rotated. 0: only by slipway keys rotate-tasks',
  },
  'task-key-overlap-seconds': {
    type: 'string',
    value: '86400',
    says: 'how long a task key is announced before it signs, and accepted after its successor signs',
  },
  'drain-seconds': {
    type: 'string',
    says: `after SIGTERM, the server still serves for this long while /readyz answers 503; default: ${defaultDrainSeconds} with --database-url, 0 with the embedded database, which no other replica shares`,
  },
  restored: {
    type: 'boolean',
    says: 'the database was restored in a way that the server cannot detect, such as point-in-time recovery; the server only observes until you run slipway restoration end. Set this flag for one start only',
  },
  'backup-to': {
    type: 'string',
    says: 'directory of scheduled backups, or s3://BUCKET/PREFIX; if replicas share it, one of them takes each backup; see slipway backup --help',
  },
  'backup-every-seconds': { type: 'string', value: '86400', says: 'time between two scheduled backups' },
  'backup-keep': { type: 'string', value: '14', says: 'how many scheduled backups stay there' },
  's3-endpoint': {
    type: 'string',
    says: 'endpoint of the S3-compatible store that keeps scheduled backups; also AWS_ENDPOINT_URL',
  },
  'log-level': { type: 'string', value: 'warn', says: 'trace, debug, info, warn, error or silent' },
};

const variableOf = (flag: string) => `SLIPWAY_${flag.replaceAll('-', '_').toUpperCase()}`;

export const serverUsage = (): string =>
  [
    'Usage: npm start -- [options]   (or: slipway serve [options])',
    '',
    ...Object.entries(serverFlags).map(
      ([flag, { type, value, says }]) =>
        `  --${`${flag}${type === 'string' ? ' VALUE' : ''}`.padEnd(22)} ${says}${value ? ` (default ${value})` : ''}; ${variableOf(flag)}`,
    ),
    '',
    '  SLIPWAY_ADMIN_TOKEN sets the admin token (at least 24 characters) and revokes the one that it replaces.',
    `  ${otlpHeadersVariable} has headers for --otlp-endpoint and --otlp-logs-endpoint, like authorization=Bearer%20…,name=value.`,
  ].join('\n');

/** An empty flag or variable counts as unset. */
export function readSettings(argv: string[], environment: Environment): ServerSettings {
  let flags: Record<string, string | boolean | undefined>;
  try {
    flags = parseArgs({
      args: argv,
      options: Object.fromEntries(Object.entries(serverFlags).map(([flag, { type }]) => [flag, { type }])),
      strict: true,
    }).values as never;
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
  const text = (flag: string): string | null => {
    const given = flags[flag] || readVariable(environment, variableOf(flag)) || serverFlags[flag]?.value;
    return typeof given === 'string' ? given : null;
  };
  const sourceOf = (flag: string): string => {
    if (flags[flag]) return `--${flag}`;
    return readVariable(environment, variableOf(flag)) === undefined ? 'default' : variableOf(flag);
  };
  const isSet = (flag: string): boolean =>
    flags[flag] === true || isYes(readVariable(environment, variableOf(flag)) ?? '');
  const seconds = (flag: string): number => {
    const given = Number(text(flag));
    if (!Number.isFinite(given) || given < 0)
      throw new SettingsError(`--${flag} must be a number of seconds, 0 or more, not ${text(flag)}`);
    return given;
  };
  const host = text('host') ?? '127.0.0.1';
  const behind_proxy = isSet('behind-proxy');
  const database_url = databaseUrlFrom('database-url', text('database-url'));
  const positive = (flag: string): number => {
    const given = Number(text(flag));
    if (!Number.isFinite(given) || given <= 0)
      throw new SettingsError(`--${flag} must be a number above 0, not ${text(flag)}`);
    return given;
  };
  const settings: ServerSettings = {
    host,
    port: portFrom(text('port')),
    data_dir: text('data-dir') ?? '.slipway',
    database_url,
    owner_database_url: databaseUrlFrom('owner-database-url', text('owner-database-url')),
    database_connections: connectionsFrom(text('database-connections')),
    public_url: text('public-url'),
    public_ca: text('public-ca'),
    nodes_dir: text('nodes-dir'),
    key_file: text('key-file'),
    tls_cert: text('tls-cert'),
    tls_key: text('tls-key'),
    behind_proxy,
    trusted_proxies: proxiesFrom(text('trusted-proxies'), { host, behind_proxy }),
    allow_local_driver: isSet('allow-local-driver'),
    docker_host: engineUrlFrom(text('docker-host') ?? ''),
    docker_cert_dir: text('docker-cert-dir'),
    docker_auth_file: text('docker-auth-file'),
    docker_allow_host_access: isSet('docker-allow-host-access'),
    ec2_endpoint: httpUrlFrom('ec2-endpoint', text('ec2-endpoint')),
    azure_endpoint: secureUrlFrom('azure-endpoint', text('azure-endpoint')),
    azure_allow_roles_anywhere: isSet('azure-allow-roles-anywhere'),
    beat_rate: positive('beat-rate'),
    session_idle_seconds: positive('session-idle-seconds'),
    session_max_seconds: positive('session-max-seconds'),
    token_failures: positive('token-failures'),
    credential_seconds: seconds('credential-seconds'),
    credential_grace_seconds: seconds('credential-grace-seconds'),
    task_key_seconds: seconds('task-key-seconds'),
    task_key_overlap_seconds: positive('task-key-overlap-seconds'),
    drain_seconds: drainSecondsFrom(text('drain-seconds'), database_url),
    restored: isSet('restored'),
    backups: backupScheduleFrom(
      {
        to: text('backup-to'),
        endpoint: text('s3-endpoint'),
        every: text('backup-every-seconds'),
        keep: text('backup-keep'),
      },
      environment,
    ),
    log_level: levelFrom(text('log-level') ?? 'warn'),
    otlp_endpoint: httpUrlFrom('otlp-endpoint', text('otlp-endpoint')),
    otlp_logs_endpoint: httpUrlFrom('otlp-logs-endpoint', text('otlp-logs-endpoint')),
    otlp_headers: readOtlpHeaders(environment[otlpHeadersVariable], (reason) => new SettingsError(reason)),
    loki_endpoint: httpUrlFrom('loki-endpoint', text('loki-endpoint')),
    config: text('config'),
    // A secret that was made from a file often ends with a line break.
    admin_token: readVariable(environment, 'SLIPWAY_ADMIN_TOKEN')?.trim() ?? null,
    sources: Object.fromEntries(Object.keys(serverFlags).map((flag) => [flag.replaceAll('-', '_'), sourceOf(flag)])),
  };
  if (settings.owner_database_url !== null && settings.database_url === null)
    throw new SettingsError('--owner-database-url requires --database-url');
  refuseOpenListening(settings);
  const weakness = settings.admin_token === null ? undefined : tokenWeakness(settings.admin_token);
  if (weakness) throw new SettingsError(`SLIPWAY_ADMIN_TOKEN ${weakness}; create one with: openssl rand -hex 32`);
  return settings;
}
