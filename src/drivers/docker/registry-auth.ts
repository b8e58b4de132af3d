/**
 * Registry credentials from a file that the server was started with, in the format of `docker
 * login`. They go to the engine with the pull and nowhere else; the engine's messages about the
 * pull are redacted.
 */
import { readFile } from 'node:fs/promises';

export interface RegistryAuth {
  serveraddress: string;
  username?: string;
  password?: string;
  identitytoken?: string;
}

/** As in `docker pull`: the first part is a registry if it looks like a host. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  return rest.length > 0 && /[.:]|^localhost$/.test(first) ? first : 'docker.io';
}

const namesOf = (registry: string): string[] =>
  registry === 'docker.io'
    ? ['docker.io', 'index.docker.io', 'https://index.docker.io/v1/']
    : [registry, `https://${registry}`];

interface Entry {
  auth?: string;
  username?: string;
  password?: string;
  identitytoken?: string;
}

function authFrom(serveraddress: string, { auth, username, password, identitytoken }: Entry): RegistryAuth {
  const [user, ...secret] = auth ? Buffer.from(auth, 'base64').toString('utf8').split(':') : [username, password ?? ''];
  return {
    serveraddress,
    ...(identitytoken ? { identitytoken } : { username: user ?? '', password: secret.join(':') }),
  };
}

export async function registryAuth(auth_file: string | null, image: string): Promise<RegistryAuth | null> {
  if (auth_file === null) return null;
  const { auths = {} } = JSON.parse(await readFile(auth_file, 'utf8')) as { auths?: Record<string, Entry> };
  const registry = registryOf(image);
  const name = namesOf(registry).find((each) => Object.hasOwn(auths, each));
  const entry = name === undefined ? undefined : auths[name];
  return entry ? authFrom(registry, entry) : null;
}

/** Every form in which the secret could appear in a message. */
export function secretsOf(auth: RegistryAuth | null): string[] {
  if (!auth) return [];
  const { username, password, identitytoken } = auth;
  const pair = `${username}:${password}`;
  const header = Buffer.from(JSON.stringify(auth)).toString('base64');
  const forms = [password, identitytoken, password && Buffer.from(pair).toString('base64'), header];
  return forms.filter((form): form is string => form !== undefined && form !== '');
}
