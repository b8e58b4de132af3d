/**
 * Matches the proxies whose forwarding headers are trusted. `--trusted-proxies` is a list of
 * addresses, networks, and the names `loopback` and `private`.
 */
import { BlockList, isIP } from 'node:net';

export interface TrustedProxies {
  /** The configured list, for display. */
  list: readonly string[];
  trusts(address: string | undefined): boolean;
}

/** Shorthands for common networks. */
const namedNetworks: Record<string, readonly string[]> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

const family = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4');

/**
 * Unwraps an IPv4 address that is mapped into IPv6, since a dual-stack socket reports the same
 * caller in both forms.
 */
export function plainAddress(address: string): string | undefined {
  const unmapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
  return isIP(unmapped) === 0 ? undefined : unmapped.toLowerCase();
}

/** Returns undefined for an entry that is neither an address, a network nor a known name. */
function networksOf(entry: string): readonly string[] | undefined {
  const networks = namedNetworks[entry];
  if (networks) return networks;
  const [address = '', bits, ...rest] = entry.split('/');
  const width = { 0: undefined, 4: 32, 6: 128 }[isIP(address)];
  if (width === undefined || rest.length > 0) return undefined;
  // A network of zero bits would trust every sender.
  if (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= width)) return undefined;
  return [`${address}/${bits ?? width}`];
}

/** Returns the first entry that cannot be parsed, if any. */
export const badProxyEntry = (list: readonly string[]): string | undefined =>
  list.find((entry) => networksOf(entry) === undefined);

export function trustedProxies(list: readonly string[]): TrustedProxies {
  const networks = new BlockList();
  for (const network of list.flatMap((entry) => networksOf(entry) ?? [])) {
    const [address = '', bits] = network.split('/');
    networks.addSubnet(address, Number(bits), family(address));
  }
  return {
    list,
    trusts(address) {
      const plain = address === undefined ? undefined : plainAddress(address);
      return plain !== undefined && networks.check(plain, family(plain));
    },
  };
}
