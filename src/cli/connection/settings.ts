/** Resolves the server, the token and the trusted authority from flags, environment and files. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultServer } from '../../base/network/default-server.ts';
import { insecureHttpRemedy, insecureHttpWhy, isLoopbackUrl, isSentInClear } from '../../base/network/insecure-http.ts';
import { CliFailure } from '../terminal/failure.ts';

/** A flag takes precedence over the environment. */
export type Source = 'flag' | 'environment';
export interface Given {
  value: string;
  source: Source;
}

export interface ConnectionInput {
  server: string;
  /** The path of a PEM file. */
  ca?: string | undefined;
  token?: Given;
  token_file?: Given;
  data_dir?: Given;
  allow_insecure_http?: boolean;
}

export interface Surroundings {
  environment: Record<string, string | undefined>;
  working_directory: string;
  clone: string;
}

export interface Connection {
  server: string;
  token: string | undefined;
  /** PEM, trusted in addition to the default authorities. */
  ca: string | null;
  /** The data directory that holds no token, as it was typed. */
  looked_in?: string;
}

export function normalizeServer(text: string): string {
  const url = URL.parse(/^[a-z]+:\/\//i.test(text) ? text : `http://${text}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash)
    throw new CliFailure('usage', `--server is not an address: ${text}`, {
      remedy: `Write it like ${defaultServer} or https://slipway.example.com.`,
    });
  return url.href.replace(/\/+$/, '');
}

function readNamed(path: string | number, what: string, remedy: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CliFailure('usage', `The ${what} ${path} cannot be read`, {
      why: error instanceof Error ? error.message : String(error),
      remedy,
      cause: error,
    });
  }
}

/** Refuses a file without a certificate: Node ignores it silently. */
function readAuthority(path: string): string {
  const remedy = 'Name the certificate of the authority, in PEM, with --ca or SLIPWAY_CA.';
  const pem = readNamed(path, 'certificate file', remedy);
  if (!pem.includes('-----BEGIN CERTIFICATE-----'))
    throw new CliFailure('usage', `The certificate file ${path} holds no certificate`, { remedy });
  return pem;
}

const standardInput = 0;

function readToken(path: string): string {
  const remedy = 'Name another with --token-file, or set SLIPWAY_TOKEN.';
  const text = readNamed(path === '-' ? standardInput : path, 'token file', remedy);
  const token = text.trim();
  if (token === '' || /\s/.test(token))
    throw new CliFailure('usage', `The token file ${path} does not hold one token`, {
      remedy: 'It must contain the token alone, on one line.',
    });
  return token;
}

const usualDirectory = '.slipway';

/** Looks in the named data directory, or else in .slipway here and in the clone. */
function adminTokenFile(input: ConnectionInput, surroundings: Surroundings): string | undefined {
  const directories = input.data_dir
    ? [input.data_dir.value]
    : [join(surroundings.working_directory, usualDirectory), join(surroundings.clone, usualDirectory)];
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
  const looked = token === undefined && looksInDirectory(server, input);
  return { server, token, ca, ...(looked && { looked_in: input.data_dir?.value ?? usualDirectory }) };
}

/** The admin token found on this host is never sent to a server on another host. */
const looksInDirectory = (server: string, input: ConnectionInput) =>
  isLoopbackUrl(server) || input.data_dir !== undefined;

/** The order: flags, the environment, then the server's admin.token. */
function resolveToken(server: string, input: ConnectionInput, surroundings: Surroundings): string | undefined {
  const { token, token_file } = input;
  const { environment } = surroundings;
  if (token_file?.source === 'flag') return readToken(token_file.value);
  if (token?.source === 'flag') return token.value;
  if (token_file) return readToken(token_file.value);
  if (token?.value) return token.value;
  if (environment.SLIPWAY_ADMIN_TOKEN) return environment.SLIPWAY_ADMIN_TOKEN;
  const found = looksInDirectory(server, input) ? adminTokenFile(input, surroundings) : undefined;
  return found === undefined ? undefined : readToken(found);
}
