/**
 * Reads registry credentials from the server's --docker-auth-file, in the format of `docker login`.
 * They are sent only to the container engine (Docker or Podman) with a pull, and are redacted from
 * its messages.
 */
import { readFile } from 'node:fs/promises';

export interface RegistryAuth {
  serveraddress: string;
  username?: string;
  password?: string;
  identitytoken?: string;
}

/** Follows `docker pull`: the first part of the name is a registry if it looks like a host. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  return rest.length > 0 && /[.:]|^localhost$/.test(first) ? first : 'docker.io';
}

const authKeysOf = (registry: string): string[] =>
  registry === 'docker.io'
    ? ['docker.io', 'index.docker.io', 'https://index.docker.io/v1/']
    : [registry, `https://${registry}`];

interface AuthEntry {
  auth?: string;
  username?: string;
  password?: string;
  identitytoken?: string;
}

function authFrom(serveraddress: string, { auth, username, password, identitytoken }: AuthEntry): RegistryAuth {
  const [user, ...secret] = auth ? Buffer.from(auth, 'base64').toString('utf8').split(':') : [username, password ?? ''];
  return {
    serveraddress,
    ...(identitytoken ? { identitytoken } : { username: user ?? '', password: secret.join(':') }),
  };
}

export async function readRegistryAuth(auth_file: string | null, image: string): Promise<RegistryAuth | null> {
  if (auth_file === null) return null;
  const { auths = {} } = JSON.parse(await readFile(auth_file, 'utf8')) as { auths?: Record<string, AuthEntry> };
  const registry = registryOf(image);
  const name = authKeysOf(registry).find((key) => Object.hasOwn(auths, key));
  const entry = name === undefined ? undefined : auths[name];
  return entry ? authFrom(registry, entry) : null;
}

/** Lists every form in which the credentials could appear in a message. */
export function secretsOf(auth: RegistryAuth | null): string[] {
  if (!auth) return [];
  const { username, password, identitytoken } = auth;
  const pair = `${username}:${password}`;
  const header = Buffer.from(JSON.stringify(auth)).toString('base64');
  const forms = [password, identitytoken, password && Buffer.from(pair).toString('base64'), header];
  return forms.filter((form): form is string => form !== undefined && form !== '');
}
