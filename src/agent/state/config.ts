/** The agent's configuration: a file from a driver, or flags from a person (options.ts). */
import { readFileSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { insecureHttpProblem, isSentInClear } from '../../base/network/insecure-http.ts';
import type { OtlpHeaders } from '../../base/settings/otlp-headers.ts';
import { errorText, type Fields, isFields, isTextRecord, isTexts } from './shape.ts';

export interface SimulatedStage {
  name: string;
  seconds: number;
}

export interface Prerequisite {
  name: string;
  /** A shell command; the prerequisite is met if it exits with 0. */
  check: string;
}

export interface AgentConfig {
  server_url: string;
  /** PEM: an authority for the control plane's certificate, trusted in addition to the system's. */
  ca: string | null;
  /** Keep one connection open for heartbeats and tasks, if the server supports streams. */
  stream: boolean;
  /** Other replicas of the control plane, used if `server_url` does not answer. */
  other_server_urls: string[];
  /** Allow sending the credential to other hosts without TLS. */
  allow_insecure_http: boolean;
  enrollment_token: string | null;
  join_token: string | null;
  /** When to give up the first registration, by the server's clock; null means never. */
  deadline_at: string | null;
  node_id: string | null;
  node_instance_id: string | null;
  name: string | null;
  correlation_id: string | null;
  workflow_id: string | null;
  /** The agent stores all its files below this directory. */
  dir: string;
  /** Working directory of `setup`, `command` and `clean`. */
  work_dir: string;
  /**
   * Directories that were created only for the workload. They are emptied before the machine is
   * reused, so a directory that a person provided must not be listed here.
   */
  workload_dirs: string[];
  /**
   * Names in `dir` that must survive a reuse; everything else there belongs to the workload. Empty
   * if `dir` was not created for the instance, so that nothing in it is removed.
   */
  dir_keeps: string[];
  /** The file that only the agent's output goes to; null if the output goes elsewhere. */
  output_file: string | null;
  setup: string | null;
  command: string[] | null;
  clean: string | null;
  /**
   * Whether SIGTERM and SIGHUP end the command. Otherwise only SIGINT does, and the next agent
   * adopts the command. In a container the command cannot outlive the agent.
   */
  stop_ends_command: boolean;
  env: Record<string, string>;
  /** Names of variables in `env` whose values are secret. */
  secret_env: string[];
  boot_stages: SimulatedStage[];
  requires: Prerequisite[];
  base_url: string | null;
  /** An OpenTelemetry collector for spans of tasks; null for none. */
  otlp_endpoint: string | null;
  /**
   * Read only for an agent that a person starts with flags: the environment of an agent that a
   * driver starts may be that of a tenant.
   */
  otlp_headers?: OtlpHeaders;
  labels: Record<string, string>;
}

/** The agent was started with invalid arguments; nothing has been done yet. */
export class UsageError extends Error {
  override name = 'UsageError';
}

export function readConfigFile(path: string): AgentConfig {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError(`cannot read ${path}: ${errorText(error)}`);
  }
  return configFrom(parsed);
}

/**
 * Whether a command can outlive the agent. All processes end with process 1. Without /proc, an
 * agent cannot prove that a process is the command that an earlier agent started.
 */
const canOutliveAgent = process.platform === 'linux' && process.pid !== 1;

/** Unknown fields are accepted: an older agent must start under a newer control plane. */
export function configFrom(value: unknown): AgentConfig {
  if (!isFields(value)) throw new UsageError('the configuration must be a JSON object');
  const dir = requiredText(value, 'dir');
  if (!isAbsolute(dir)) throw new UsageError('`dir` must be an absolute path');
  const server_url = parseServerUrl(requiredText(value, 'server_url'));
  const other_server_urls = (optional(value, 'other_server_urls', isTexts, 'a list of addresses') ?? []).map(
    parseServerUrl,
  );
  const allow_insecure_http = optional(value, 'allow_insecure_http', isBoolean, 'true or false') ?? false;
  const plainHttpUrl = [server_url, ...other_server_urls].find(isSentInClear);
  if (plainHttpUrl && !allow_insecure_http) throw new UsageError(insecureHttpProblem(plainHttpUrl));
  return {
    server_url,
    ca: readAuthority(value),
    other_server_urls,
    allow_insecure_http,
    stream: optional(value, 'stream', isBoolean, 'true or false') ?? false,
    enrollment_token: optionalText(value, 'enrollment_token'),
    join_token: optionalText(value, 'join_token'),
    deadline_at: readDeadline(value),
    node_id: optionalText(value, 'node_id'),
    node_instance_id: optionalText(value, 'node_instance_id'),
    name: optionalText(value, 'name'),
    correlation_id: optionalText(value, 'correlation_id'),
    workflow_id: optionalText(value, 'workflow_id'),
    dir: resolve(dir),
    work_dir: resolve(optionalText(value, 'work_dir') ?? dir),
    workload_dirs: optional(value, 'workload_dirs', isPaths, 'a list of absolute paths') ?? [],
    dir_keeps: optional(value, 'dir_keeps', isTexts, 'a list of names') ?? [],
    output_file: optionalText(value, 'output_file'),
    setup: optionalText(value, 'setup'),
    command: optional(value, 'command', isCommand, 'a list with at least the program'),
    clean: optionalText(value, 'clean'),
    stop_ends_command: optional(value, 'stop_ends_command', isBoolean, 'true or false') ?? !canOutliveAgent,
    env: optional(value, 'env', isTextRecord, 'an object of strings') ?? {},
    secret_env: optional(value, 'secret_env', isTexts, 'a list of names') ?? [],
    boot_stages: optional(value, 'boot_stages', isStages, 'a list of {name, seconds}') ?? [],
    requires: optional(value, 'requires', isPrerequisites, 'a list of {name, check}') ?? [],
    base_url: optionalText(value, 'base_url'),
    otlp_endpoint: optionalText(value, 'otlp_endpoint'),
    labels: optional(value, 'labels', isTextRecord, 'an object of strings') ?? {},
  };
}

const isCommand = (value: unknown): value is string[] => isTexts(value) && value.length > 0;

const isPaths = (value: unknown): value is string[] => isTexts(value) && value.every((path) => isAbsolute(path));

const isStages = (value: unknown): value is SimulatedStage[] =>
  Array.isArray(value) &&
  value.every(
    (item) => isFields(item) && typeof item.name === 'string' && typeof item.seconds === 'number' && item.seconds >= 0,
  );

export const isPrerequisites = (value: unknown): value is Prerequisite[] =>
  Array.isArray(value) &&
  value.every((item) => isFields(item) && typeof item.name === 'string' && typeof item.check === 'string');

const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';

const isText = (value: unknown): value is string => typeof value === 'string';

function optional<T>(fields: Fields, name: string, isValid: (value: unknown) => value is T, shape: string): T | null {
  const value = fields[name];
  if (value === undefined || value === null) return null;
  if (!isValid(value)) throw new UsageError(`\`${name}\` must be ${shape}`);
  return value;
}

const optionalText = (fields: Fields, name: string) => optional(fields, name, isText, 'a string');

function requiredText(fields: Fields, name: string): string {
  const value = optionalText(fields, name);
  if (!value) throw new UsageError(`\`${name}\` is missing`);
  return value;
}

function readDeadline(fields: Fields): string | null {
  const value = optionalText(fields, 'deadline_at');
  if (value !== null && Number.isNaN(Date.parse(value))) throw new UsageError('`deadline_at` must be a time');
  return value;
}

function readAuthority(fields: Fields): string | null {
  const ca = optionalText(fields, 'ca');
  if (ca !== null && !ca.includes('-----BEGIN CERTIFICATE-----'))
    throw new UsageError('`ca` must be a certificate in PEM');
  return ca;
}

function parseServerUrl(text: string): string {
  if (!URL.canParse(text) || !['http:', 'https:'].includes(new URL(text).protocol)) {
    throw new UsageError('the server must be an http or https address');
  }
  return text.replace(/\/+$/, '');
}
