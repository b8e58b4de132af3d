/**
 * Decides which addresses the server may probe. Nodes report their own address. Without this table,
 * anyone who can register could make the control plane call itself, its neighbours or a cloud
 * metadata service (SSRF).
 */
import { BlockList, isIP } from 'node:net';

interface AddressClass {
  name: string;
  allowed: 'if_private_allowed' | 'never';
  ipv4: string[];
  ipv6: string[];
}

/**
 * The first class that contains an address decides, so narrow ranges come before the wide ones
 * around them.
 */
const classes = [
  {
    name: 'cloud_metadata',
    allowed: 'never',
    ipv4: [
      '169.254.169.254/32',
      '169.254.170.2/32',
      '169.254.170.23/32',
      '100.100.100.200/32',
      '168.63.129.16/32',
      '192.0.0.192/32',
    ],
    ipv6: ['fd00:ec2::/32', 'fd20:ce::254/128', 'fd00:c1::a9fe:a9fe/128', 'fd00:42::42/128'],
  },
  { name: 'unspecified', allowed: 'never', ipv4: ['0.0.0.0/8'], ipv6: ['::/128'] },
  { name: 'loopback', allowed: 'if_private_allowed', ipv4: ['127.0.0.0/8'], ipv6: ['::1/128'] },
  {
    name: 'private',
    allowed: 'if_private_allowed',
    ipv4: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
    ipv6: ['fc00::/7'],
  },
  { name: 'shared', allowed: 'if_private_allowed', ipv4: ['100.64.0.0/10'], ipv6: [] },
  { name: 'link_local', allowed: 'never', ipv4: ['169.254.0.0/16'], ipv6: ['fe80::/10'] },
  {
    name: 'documentation',
    allowed: 'never',
    ipv4: ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '233.252.0.0/24'],
    ipv6: ['2001:db8::/32', '3fff::/20'],
  },
  { name: 'benchmarking', allowed: 'never', ipv4: ['198.18.0.0/15'], ipv6: ['2001:2::/48'] },
  { name: 'multicast', allowed: 'never', ipv4: ['224.0.0.0/4'], ipv6: ['ff00::/8'] },
  { name: 'broadcast', allowed: 'never', ipv4: ['255.255.255.255/32'], ipv6: [] },
  {
    name: 'reserved',
    allowed: 'never',
    ipv4: ['192.0.0.0/24', '192.88.99.0/24', '240.0.0.0/4'],
    // 2001::/23 contains Teredo, which hides an IPv4 address behind an XOR. Global unicast
    // addresses are allocated only from 2000::/3.
    ipv6: ['2001::/23', '::/3', '4000::/2', '8000::/1'],
  },
] as const satisfies AddressClass[];

export type ForbiddenClass = (typeof classes)[number]['name'] | 'not_an_address';

export type AddressVerdict = { allowed: true } | { allowed: false; because: ForbiddenClass };

/** IPv6 ranges that embed an IPv4 address, and the group at which that address starts. */
const embeddings = [
  { name: 'mapped', prefix: '::ffff:0:0/96', at: 6 },
  { name: 'compatible', prefix: '::/96', at: 6 },
  { name: 'translated', prefix: '::ffff:0:0:0/96', at: 6 },
  { name: 'NAT64', prefix: '64:ff9b::/96', at: 6 },
  { name: '6to4', prefix: '2002::/16', at: 1 },
];

type Family = 'ipv4' | 'ipv6';

/**
 * Each list holds one family only, since a BlockList also matches an IPv4 address against its
 * IPv6-mapped form, and vice versa.
 */
function listOf(family: Family, subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', prefix] = subnet.split('/');
    list.addSubnet(net, Number(prefix), family);
  }
  return list;
}

const classLists = classes.map(({ name, allowed, ipv4, ipv6 }) => ({
  name,
  allowed,
  ipv4: listOf('ipv4', ipv4),
  ipv6: listOf('ipv6', ipv6),
}));
const embeddingLists = embeddings.map(({ prefix, at }) => ({ list: listOf('ipv6', [prefix]), at }));
/**
 * `::` and `::1` do not embed an IPv4 address, although they lie in the IPv4-compatible range.
 */
const onlyIpv6 = listOf('ipv6', ['::/128', '::1/128']);

/** Returns the eight groups of an IPv6 address. The URL parser brings it to canonical form. */
function groupsOf(ip: string): number[] {
  const [head = '', tail] = new URL(`http://[${ip}]/`).hostname.slice(1, -1).split('::');
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return numbers(head);
  const [before, after] = [numbers(head), numbers(tail)];
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

function embeddedIpv4(ip: string): string | undefined {
  if (onlyIpv6.check(ip, 'ipv6')) return undefined;
  const embedding = embeddingLists.find(({ list }) => list.check(ip, 'ipv6'));
  if (!embedding) return undefined;
  return groupsOf(ip)
    .slice(embedding.at, embedding.at + 2)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

/** Takes an address as a resolver returns it, or as in a URL but without brackets. */
export function judgeAddress(ip: string, { allow_private }: { allow_private: boolean }): AddressVerdict {
  // A zone id names only the interface and is not part of the address.
  const withoutZone = ip.split('%', 1)[0] ?? '';
  const version = isIP(withoutZone);
  if (version === 0) return { allowed: false, because: 'not_an_address' };
  const ipv4 = version === 6 ? embeddedIpv4(withoutZone) : undefined;
  const [address, family]: [string, Family] = ipv4 ? [ipv4, 'ipv4'] : [withoutZone, version === 4 ? 'ipv4' : 'ipv6'];
  const addressClass = classLists.find((each) => each[family].check(address, family));
  if (!addressClass || (allow_private && addressClass.allowed === 'if_private_allowed')) return { allowed: true };
  return { allowed: false, because: addressClass.name };
}
