/** Resolves the server, the token and the trusted authority from flags, environment and files. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultServer } from '../../base/network/default-server.ts';
import { insecureHttpRemedy, insecureHttpWhy, isLoopbackUrl, isSentInClear } from '../../base/network/insecure-http.ts';
import { CliFailure } from '../terminal/failure.ts';

/** A flag takes precedence over the environment. */
export type Source = 'flag' | 'environment';
export interface Setting {
  value: string;
  source: Source;
}

export interface ConnectionInput {
  server: string;
  /** The path of a PEM file. */
  ca?: string | undefined;
  token?: Setting;
  token_file?: Setting;
  data_dir?: Setting;
  allow_insecure_http?: boolean;
}

export interface Surroundings {
  environment: Record<string, string | undefined>;
  working_directory: string;
  /** The directory of the package that the command runs from. */
  clone: string;
}

export interface Connection {
  server: string;
  token: string | undefined;
  /** PEM, trusted in addition to the default authorities. */
  ca: string | null;
  /** Set if no token was found: the data directory that was searched, as the user typed it. */
  searched_directory?: string;
}

export function normalizeServer(text: string): string {
  const url = URL.parse(/^[a-z]+:\/\//i.test(text) ? text : `http://${text}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash)
    throw new CliFailure('usage', `--server is not an address: ${text}`, {
      remedy: `Write the address like ${defaultServer} or https://slipway.example.com.`,
    });
  return url.href.replace(/\/+$/, '');
}

function readSettingFile(path: string | number, kind: string, remedy: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CliFailure('usage', `The ${kind} ${path} cannot be read`, {
      why: error instanceof Error ? error.message : String(error),
      remedy,
      cause: error,
    });
  }
}

/** Refuses a file without a certificate, because Node would silently ignore the file. */
function readAuthority(path: string): string {
  const remedy = 'Name the certificate of the authority, in PEM, with --ca or SLIPWAY_CA.';
  const pem = readSettingFile(path, 'certificate file', remedy);
  if (!pem.includes('-----BEGIN CERTIFICATE-----'))
    throw new CliFailure('usage', `The certificate file ${path} holds no certificate`, { remedy });
  return pem;
}

const standardInput = 0;

function readToken(path: string): string {
  const remedy = 'Name another file with --token-file, or set SLIPWAY_TOKEN.';
  const text = readSettingFile(path === '-' ? standardInput : path, 'token file', remedy);
  const token = text.trim();
  if (token === '' || /\s/.test(token))
    throw new CliFailure('usage', `The token file ${path} does not hold one token`, {
      remedy: 'The file must contain only the token, on one line.',
    });
  return token;
}

const defaultDirectory = '.slipway';

/** Looks in the named data directory, or else in .slipway here and in the clone. */
function findAdminTokenFile(input: ConnectionInput, surroundings: Surroundings): string | undefined {
  const directories = input.data_dir
    ? [input.data_dir.value]
    : [join(surroundings.working_directory, defaultDirectory), join(surroundings.clone, defaultDirectory)];
  return directories.map((directory) => join(directory, 'admin.token')).find((path) => existsSync(path));
}

export function resolveConnection(input: ConnectionInput, surroundings: Surroundings): Connection {
  const server = normalizeServer(input.server);
  const ca = input.ca ? readAuthority(input.ca) : null;
  const token = resolveToken(server, input, surroundings);
  if (token !== undefined && isSentInClear(server) && !input.allow_insecure_http)
    throw new CliFailure('usage', `${server} is another host without TLS, so your token is not sent there`, {
      why: insecureHttpWhy,
      remedy: insecureHttpRemedy,
    });
  const hasSearched = token === undefined && canUseAdminToken(server, input);
  return { server, token, ca, ...(hasSearched && { searched_directory: input.data_dir?.value ?? defaultDirectory }) };
}

/** Sends an admin token to another host only if the user named its directory with --data-dir. */
const canUseAdminToken = (server: string, input: ConnectionInput) =>
  isLoopbackUrl(server) || input.data_dir !== undefined;

/** Prefers flags, then the environment, then the server's admin.token. */
function resolveToken(server: string, input: ConnectionInput, surroundings: Surroundings): string | undefined {
  const { token, token_file } = input;
  const { environment } = surroundings;
  if (token_file?.source === 'flag') return readToken(token_file.value);
  if (token?.source === 'flag') return token.value;
  if (token_file) return readToken(token_file.value);
  if (token?.value) return token.value;
  if (environment.SLIPWAY_ADMIN_TOKEN) return environment.SLIPWAY_ADMIN_TOKEN;
  const path = canUseAdminToken(server, input) ? findAdminTokenFile(input, surroundings) : undefined;
  return path === undefined ? undefined : readToken(path);
}
