/**
 * Finds out where a request came from. Only this file uses the values of X-Forwarded-*, and only
 * if they come from a trusted proxy.
 */
import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { plainAddress, type TrustedProxies } from '../../base/network/trusted-proxies.ts';

type RawRequest = Pick<IncomingMessage, 'headers'> & { socket: { remoteAddress?: string | undefined } };

/** Real proxy chains are shorter; a forged header may be long. */
const maxHops = 16;
/** A closed socket has no address. */
const unknownAddress = '0.0.0.0';

/** Some proxies append the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const withoutPort = (entry: string): string =>
  /^\[(.*)\](?::\d+)?$/.exec(entry)?.[1] ?? /^([^:]*):\d+$/.exec(entry)?.[1] ?? entry;

const forwardedHops = (header: string | string[] | undefined): string[] =>
  [header ?? []].flat().join(',').split(',').slice(-maxHops).reverse();

/**
 * Returns the nearest address that is not a trusted proxy. If an entry of the header is invalid,
 * returns the hop that sent it.
 */
function walkHops({ headers, socket }: RawRequest, proxies: TrustedProxies): string {
  let address = plainAddress(socket.remoteAddress ?? '') ?? unknownAddress;
  for (const hop of forwardedHops(headers['x-forwarded-for'])) {
    if (!proxies.trusts(address)) return address;
    const next = plainAddress(withoutPort(hop.trim()));
    if (next === undefined) return address;
    address = next;
  }
  return address;
}

/** The caller's IP address, for the audit and for limits on callers without a credential. */
export const sourceAddress = (request: FastifyRequest): string => walkHops(request.raw, request.server.proxies);

/** A subscriber usually has a whole IPv6 /64, so limits count per /64. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail ? tail.split(':') : [];
  const groups = [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}

export const sourceNetwork = (request: FastifyRequest): string => networkOf(sourceAddress(request));

/** The host name that the caller used. The nearest proxy's value is the last in the header. */
export function requestedHost({ headers, socket }: RawRequest, proxies: TrustedProxies): string {
  const forwarded = proxies.trusts(socket.remoteAddress)
    ? [headers['x-forwarded-host'] ?? []].flat().at(-1)
    : undefined;
  return (forwarded ?? headers.host ?? '').split(',').at(-1)?.trim() ?? '';
}

declare module 'fastify' {
  interface FastifyInstance {
    proxies: TrustedProxies;
  }
}
