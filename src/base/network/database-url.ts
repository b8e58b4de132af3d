/**
 * Reads a PostgreSQL URL that may list several servers, as libpq does:
 * `postgres://user:password@a:5432,b:5433/name?target_session_attrs=read-write`.
 */

/** Which servers may be used: any, those that accept writes, or those that are not a standby. */
export const sessionTargets = ['any', 'read-write', 'primary'] as const;
export type SessionTarget = (typeof sessionTargets)[number];

export interface DatabaseUrl {
  /** One URL for each server, in the order of preference. */
  urls: string[];
  target: SessionTarget;
}

export class DatabaseUrlError extends Error {
  override name = 'DatabaseUrlError';
}

const shape = /^(?<scheme>postgres(?:ql)?:\/\/)(?<authority>[^/?#]*)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/;
const invalidUrlError = () =>
  new DatabaseUrlError('the database URL must be like postgres://user:password@host:5432/name');

function split(url: string) {
  const { scheme, authority = '', path = '', query = '' } = shape.exec(url)?.groups ?? {};
  if (scheme === undefined) throw invalidUrlError();
  const at = authority.lastIndexOf('@') + 1;
  return { scheme, account: authority.slice(0, at), servers: authority.slice(at), path, query };
}

/** Throws for example for a password with an unescaped slash. An empty host is allowed. */
function requireParsable(url: string): string {
  if (!URL.canParse(url.replace(/@(?=[/?]|$)/, '@host'))) throw invalidUrlError();
  return url;
}

const isSessionTarget = (given: string): given is SessionTarget => sessionTargets.some((each) => each === given);

/** Slipway writes on every connection, so with several servers the default is `read-write`. */
function targetFrom(given: string | null, servers: number): SessionTarget {
  if (given === null) return servers > 1 ? 'read-write' : 'any';
  if (isSessionTarget(given)) return given;
  throw new DatabaseUrlError(`target_session_attrs must be ${sessionTargets.join(', ')}, not ${given}`);
}

/** Returns one port for each host. One port alone is the port of all hosts. */
function portsFor(hosts: string[], given: string | null): string[] {
  const ports = given === null ? [''] : given.split(',');
  if (ports.length !== 1 && ports.length !== hosts.length)
    throw new DatabaseUrlError(`the database URL lists ${hosts.length} hosts and ${ports.length} ports`);
  return hosts.map((_, index) => ports[index] ?? ports[0] ?? '');
}

/** Never includes the URL in an error, because it contains a password. */
export function parseDatabaseUrl(url: string): DatabaseUrl {
  const { scheme, account, servers, path, query } = split(url);
  const parameters = new URLSearchParams(query);
  const given = parameters.get('target_session_attrs');
  parameters.delete('target_session_attrs');
  const hostParameter = parameters.get('host');
  const urlOf = (server: string, changed: Record<string, string> = {}) => {
    const all = new URLSearchParams(parameters);
    for (const [name, value] of Object.entries(changed)) value === '' ? all.delete(name) : all.set(name, value);
    return `${scheme}${account}${server}${path}${all.size > 0 ? `?${all}` : ''}`;
  };
  const hosts = (hostParameter ?? servers).split(',');
  if (hosts.length > 1 && hosts.includes('')) throw new DatabaseUrlError('the database URL lists an empty host');
  const target = targetFrom(given, hosts.length);
  if (hosts.length === 1) return { urls: [requireParsable(given === null ? url : urlOf(servers))], target };
  if (hostParameter === null) return { urls: hosts.map((host) => requireParsable(urlOf(host))), target };
  const ports = portsFor(hosts, parameters.get('port'));
  return { urls: hosts.map((host, index) => requireParsable(urlOf('', { host, port: ports[index] ?? '' }))), target };
}

/** The URL without its password and query. */
export function withoutPassword(url: string): string {
  parseDatabaseUrl(url);
  const { scheme, account, servers, path } = split(url);
  const [user = ''] = account.split(/[:@]/);
  return `${scheme}${user && `${user}@`}${servers}${path}`;
}
