/** Checks the values of the server's flags. A value that cannot be used throws `SettingsError`. */
import { parseDatabaseUrl } from '../network/database-url.ts';
import { badProxyEntry } from '../network/trusted-proxies.ts';

export class SettingsError extends Error {
  override name = 'SettingsError';
}

/** A load balancer usually notices a failing check within this time. */
export const defaultDrainSeconds = 10;

const loopbackHosts = ['127.0.0.1', '::1', 'localhost'];
export const isLoopback = (host: string): boolean => loopbackHosts.includes(host);

/** Secrets must not be sent in clear text over a network. */
export function refuseOpenListening(settings: {
  host: string;
  tls_cert: string | null;
  tls_key: string | null;
  behind_proxy: boolean;
}): void {
  if ((settings.tls_cert === null) !== (settings.tls_key === null))
    throw new SettingsError('--tls-cert and --tls-key must be set together');
  if (!isLoopback(settings.host) && !settings.tls_cert && !settings.behind_proxy) {
    throw new SettingsError(
      `--host ${settings.host} is not a loopback address: set --tls-cert and --tls-key, or --behind-proxy if a proxy terminates TLS`,
    );
  }
}

export function portFrom(given: string | null): number {
  const port = Number(given);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new SettingsError(`--port must be a number from 0 to 65535, not ${given}`);
  return port;
}

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'];

export function levelFrom(given: string): string {
  if (!levels.includes(given)) throw new SettingsError(`--log-level must be one of ${levels.join(', ')}, not ${given}`);
  return given;
}

export function httpUrlFrom(flag: string, given: string | null): string | null {
  if (given !== null && !/^https?:$/.test(URL.parse(given)?.protocol ?? ''))
    throw new SettingsError(`--${flag} must be an http or https URL, not ${given}`);
  return given;
}

/** Requests to this URL contain the token of a cloud account. */
export function secureUrlFrom(flag: string, given: string | null): string | null {
  if (given !== null && URL.parse(given)?.protocol !== 'https:')
    throw new SettingsError(`--${flag} must be an https URL, not ${given}`);
  return given;
}

const minConnections = 12;

export function connectionsFrom(given: string | null): number {
  const connections = Number(given);
  if (!Number.isInteger(connections) || connections < minConnections)
    throw new SettingsError(`--database-connections must be a whole number from ${minConnections}, not ${given}`);
  return connections;
}

export function databaseUrlFrom(flag: string, given: string | null): string | null {
  try {
    if (given !== null) parseDatabaseUrl(given);
    return given;
  } catch (error) {
    throw new SettingsError(`--${flag}: ${error instanceof Error ? error.message : error}`);
  }
}

/** A trusted proxy can forge addresses in the audit log, so the operator must list the proxies. */
export function proxiesFrom(
  given: string | null,
  { host, behind_proxy }: { host: string; behind_proxy: boolean },
): string[] {
  if (!behind_proxy) {
    if (given !== null) throw new SettingsError('--trusted-proxies requires --behind-proxy');
    return [];
  }
  if (given === null) {
    if (isLoopback(host)) return ['loopback'];
    throw new SettingsError(
      `--behind-proxy with --host ${host} needs --trusted-proxies: the addresses or networks of your proxies, like 10.0.0.5 or 10.1.0.0/16`,
    );
  }
  const list = given.split(',').map((entry) => entry.trim());
  const bad = badProxyEntry(list);
  if (bad !== undefined)
    throw new SettingsError(
      `--trusted-proxies takes addresses (10.0.0.5), networks (10.1.0.0/16), loopback and private, not ${bad || 'an empty entry'}`,
    );
  return list;
}

export function drainSecondsFrom(given: string | null, database_url: string | null): number {
  if (given === null) return database_url === null ? 0 : defaultDrainSeconds;
  const seconds = Number(given);
  if (!Number.isFinite(seconds) || seconds < 0 || seconds > 3600)
    throw new SettingsError(`--drain-seconds must be a number from 0 to 3600, not ${given}`);
  return seconds;
}

export interface S3Address {
  bucket: string;
  /** A prefix, or the name of an object; may be empty. */
  key: string;
}

const s3Scheme = /^s3:/i;
const s3Shape = /^s3:\/\/(?<bucket>[a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(?:\/+(?<key>.*))?$/i;

export const isS3Url = (place: string): boolean => s3Scheme.test(place);

/** Does not repeat the value, which may contain credentials. */
export function s3AddressFrom(place: string): S3Address {
  const { bucket, key = '' } = s3Shape.exec(place)?.groups ?? {};
  if (bucket === undefined)
    throw new SettingsError(
      'a place in a bucket must be like s3://BUCKET/PREFIX; its credentials belong in the environment',
    );
  return { bucket, key };
}

/** Returns null for AWS and for a directory. Throws if the S3 URL or the endpoint is malformed. */
export function s3EndpointOf(
  place: string,
  given: string | null,
  environment: Record<string, string | undefined>,
): string | null {
  if (!isS3Url(place)) return null;
  s3AddressFrom(place);
  const endpoint = given || environment.AWS_ENDPOINT_URL_S3 || environment.AWS_ENDPOINT_URL || null;
  if (endpoint === null) return null;
  const url = URL.parse(endpoint);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new SettingsError('--s3-endpoint or AWS_ENDPOINT_URL must be an http or https URL without credentials');
  return endpoint;
}

export interface BackupSchedule {
  /** A directory or `s3://BUCKET/PREFIX`. */
  to: string;
  /** Null for AWS. */
  s3_endpoint: string | null;
  every_seconds: number;
  /** How many backups are kept in `to`. */
  keep: number;
}

const minBackupSeconds = 60;

/** Returns null if `to` is null: no backups are scheduled. */
export function backupScheduleFrom(
  { to, endpoint, every, keep }: Record<'to' | 'endpoint' | 'every' | 'keep', string | null>,
  environment: Record<string, string | undefined>,
): BackupSchedule | null {
  if (to === null) return null;
  const s3_endpoint = s3EndpointOf(to, endpoint, environment);
  const schedule = { to, s3_endpoint, every_seconds: Number(every), keep: Number(keep) };
  if (!Number.isFinite(schedule.every_seconds) || schedule.every_seconds < minBackupSeconds)
    throw new SettingsError(`--backup-every-seconds must be a number from ${minBackupSeconds}, not ${every}`);
  if (!Number.isInteger(schedule.keep) || schedule.keep < 1)
    throw new SettingsError(`--backup-keep must be a whole number from 1, not ${keep}`);
  return schedule;
}

export function engineUrlFrom(given: string): string {
  if (!/^(unix:\/\/\/|(tcp|https?):\/\/[^/]+\/?$)/.test(given))
    throw new SettingsError(`--docker-host must be like unix:///var/run/docker.sock or tcp://host:2376, not ${given}`);
  return given;
}
